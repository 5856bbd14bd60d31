//! Duplicate address and gateway detection (ARP/NDP).

use super::{CniHandler, execute::AddSession};
use crate::address::{DetectionFinding, DetectionMode, QUARANTINE_UID, detect};
use ferroband_address::{AddressPool, AddressRelease, AddressRequest};
use ferroband_attach::plan::AssignedAddresses;
use ferroband_kernel::Netns;
use ferroband_model::{Fault, PodRef};
use std::{net::IpAddr, sync::Arc, time::Duration};
use tracing::{info, warn};

/// How many times duplicate addresses of an ADD are replaced before the ADD fails.
const MAX_ATTEMPTS: usize = 4;
/// Timeout for the release of a duplicate address in the address blocks.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

impl AddSession<'_> {
    /// Probes the assigned addresses before the pod uses them. Duplicates are quarantined and replaced.
    /// Returns the final addresses.
    pub(super) fn replace_duplicates(
        &self,
        mut assigned: Vec<AssignedAddresses>,
        netns: &Netns,
    ) -> Result<Vec<AssignedAddresses>, Fault> {
        let Self { handler, runtime, plan, ip_requests, .. } = self;
        for _ in 0..MAX_ATTEMPTS {
            let probes = handler.probing.probes_for(DetectionMode::Enforce, plan, &assigned);
            let found = match detect(netns, &probes) {
                Ok(found) => found,
                Err(e) => {
                    warn!(error = %e, "ARP/NDP probe failed");
                    return Ok(assigned);
                }
            };
            let Some(first) = found.first() else { return Ok(assigned) };
            // A finding that is not a duplicate is an unreachable gateway. Another address would not help, so
            // the ADD fails.
            if found.iter().any(|finding| !finding.duplicate) {
                return Err(first.fault.clone());
            }
            for DetectionFinding { index: place, fault, .. } in &found {
                warn!(%fault, "address quarantined");
                let address = assigned[place.position].ips[place.ip].address.addr();
                let requests = &ip_requests[place.position].requests;
                runtime.block_on(handler.quarantine(requests, address)).map_err(|_| fault.clone())?;
            }
            assigned = runtime.block_on(handler.assign_addresses(ip_requests.clone()))?;
        }
        let probes = handler.probing.probes_for(DetectionMode::Enforce, plan, &assigned);
        match detect(netns, &probes).ok().and_then(|found| found.into_iter().next()) {
            Some(finding) => Err(finding.fault),
            None => Ok(assigned),
        }
    }

    /// Probes the addresses after the ADD, on a separate thread. Reports duplicates as events on the pod and
    /// logs unreachable gateways.
    pub(super) fn probe_in_background(self) {
        let Self { handler, runtime, plan, pod, assigned, netns, .. } = self;
        let Some(netns) = netns.filter(|_| handler.probing.has_mode(DetectionMode::Warn)) else { return };
        let probes = handler.probing.probes_for(DetectionMode::Warn, &plan, &assigned);
        if probes.is_empty() {
            return;
        }
        let (events, runtime) = (handler.events.clone(), runtime.clone());
        let probe = move || match detect(&netns, &probes) {
            Ok(found) => {
                for DetectionFinding { duplicate, fault, .. } in found {
                    if duplicate {
                        warn!(%fault, "duplicate address detected");
                        runtime.block_on(events.clone().warn(pod.clone(), fault));
                    } else {
                        // Many RDMA networks have no reachable gateway, so this is not a warning. Users who
                        // depend on a gateway can set the detection mode to `enforce`.
                        info!(%fault, "gateway not reachable");
                    }
                }
            }
            Err(e) => info!(error = %e, "ARP/NDP probe failed"),
        };
        if let Err(e) =
            std::thread::Builder::new().name("probe".to_owned()).stack_size(256 << 10).spawn(probe)
        {
            warn!(error = %e, "cannot start the thread for ARP/NDP probes");
        }
    }
}

impl CniHandler {
    /// Takes `address` from the interface and assigns it to an owner that is not a pod, so that no pod gets it.
    pub(super) async fn quarantine(&self, requests: &[AddressRequest], address: IpAddr) -> Result<(), Fault> {
        let contains_address =
            |request: &&AddressRequest| request.pools.iter().any(|pool| pool.can_keep(address));
        let Some(request) = requests.iter().find(contains_address) else { return Ok(()) };
        let Some(pool) = request.pools.iter().find(|pool| pool.can_keep(address)) else { return Ok(()) };
        let release = AddressRelease {
            container: request.container.clone(),
            interface: Some(request.interface.clone()),
            address: Some(address),
        };
        self.allocator.release(release, WRITE_TIMEOUT).await;
        let window = [(address, address)];
        let only = AddressPool::new(pool.name(), pool.space().clone(), pool.subnet(), window, &[], None);
        let Ok(only) = only else { return Ok(()) };
        let quarantine_request = AddressRequest {
            pools: vec![Arc::new(only)],
            pod: PodRef {
                namespace: QUARANTINE_UID.into(),
                name: address.to_string(),
                uid: QUARANTINE_UID.into(),
            },
            sticky: false,
            // The owner of an address is a UID and an interface, so that each quarantined address has its own.
            interface: address.to_string(),
            ordinal: 0,
            container: format!("{QUARANTINE_UID}-{address}"),
        };
        self.allocator.assign(format!("address {address}"), vec![quarantine_request]).await.map(drop)
    }
}
