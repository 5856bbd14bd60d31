//! What the wire says about the addresses of a pod, and what follows.

use super::CniHandler;
use crate::{
    address::{DetectionFinding, DetectionMode, QUARANTINE_UID, detect},
    plan::AttachmentIpRequests,
};
use ferroband_address::{AddressPool, AddressRelease, AddressRequest};
use ferroband_attach::plan::{AssignedAddresses, Plan};
use ferroband_kernel::Netns;
use ferroband_model::{Fault, PodRef};
use std::{net::IpAddr, sync::Arc, time::Duration};
use tokio::runtime::Handle;
use tracing::{info, warn};

/// So many addresses in a row may be somebody else's.
const MAX_ATTEMPTS: usize = 4;
/// How long a change of the granules is waited for.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

impl CniHandler {
    /// Before the pod gets them: addresses that somebody else has are put aside, and others take their place.
    pub(super) fn replace_duplicates(
        &self,
        plan: &Plan,
        wanted: &[AttachmentIpRequests],
        mut assigned: Vec<AssignedAddresses>,
        netns: &Netns,
        runtime: &Handle,
    ) -> Result<Vec<AssignedAddresses>, Fault> {
        for _ in 0..MAX_ATTEMPTS {
            let questions = self.probing.questions_for(DetectionMode::Enforce, plan, &assigned);
            let found = match detect(netns, &questions) {
                Ok(found) => found,
                Err(e) => {
                    warn!(error = %e, "the wire cannot be asked");
                    return Ok(assigned);
                }
            };
            let Some(first) = found.first() else { return Ok(assigned) };
            // A gateway that is silent now is silent for the next address too.
            if found.iter().any(|finding| !finding.duplicate) {
                return Err(first.fault.clone());
            }
            for DetectionFinding { index: place, fault, .. } in &found {
                warn!(%fault, "put aside");
                let address = assigned[place.position].ips[place.ip].address.addr();
                let requests = &wanted[place.position].requests;
                runtime.block_on(self.quarantine(requests, address)).map_err(|_| fault.clone())?;
            }
            assigned = runtime.block_on(self.assign_addresses(wanted.to_vec()))?;
        }
        let questions = self.probing.questions_for(DetectionMode::Enforce, plan, &assigned);
        match detect(netns, &questions).ok().and_then(|found| found.into_iter().next()) {
            Some(finding) => Err(finding.fault),
            None => Ok(assigned),
        }
    }

    /// After the pod has them, on a thread of its own: what is wrong is told.
    pub(super) fn probe_in_background(
        &self,
        plan: &Plan,
        assigned: &[AssignedAddresses],
        netns: Netns,
        pod: &PodRef,
        runtime: &Handle,
    ) {
        let questions = self.probing.questions_for(DetectionMode::Warn, plan, assigned);
        if questions.is_empty() {
            return;
        }
        let (events, pod, runtime) = (self.events.clone(), pod.clone(), runtime.clone());
        let looking = move || match detect(&netns, &questions) {
            Ok(found) => {
                for DetectionFinding { duplicate, fault, .. } in found {
                    if duplicate {
                        warn!(%fault, "on the wire");
                        runtime.block_on(events.clone().warn(pod.clone(), fault));
                    } else {
                        // A rail seldom has a gateway that answers; who depends on it enforces it.
                        info!(%fault, "on the wire");
                    }
                }
            }
            Err(e) => info!(error = %e, "the wire cannot be asked"),
        };
        if let Err(e) =
            std::thread::Builder::new().name("probe".to_owned()).stack_size(256 << 10).spawn(looking)
        {
            warn!(error = %e, "cannot start a thread");
        }
    }

    /// Take the address from the sandbox and give it to nobody.
    async fn quarantine(&self, requests: &[AddressRequest], address: IpAddr) -> Result<(), Fault> {
        let keeps = |request: &&AddressRequest| request.pools.iter().any(|pool| pool.can_keep(address));
        let Some(request) = requests.iter().find(keeps) else { return Ok(()) };
        let Some(pool) = request.pools.iter().find(|pool| pool.can_keep(address)) else { return Ok(()) };
        let release = AddressRelease {
            container: request.container.clone(),
            interface: Some(request.interface.clone()),
        };
        self.allocator.release(release, WRITE_TIMEOUT).await;
        let window = [(address, address)];
        let only = AddressPool::new(pool.name(), pool.space().clone(), pool.subnet(), window, &[], None);
        let Ok(only) = only else { return Ok(()) };
        let nobody = AddressRequest {
            pools: vec![Arc::new(only)],
            pod: PodRef {
                namespace: QUARANTINE_UID.into(),
                name: address.to_string(),
                uid: QUARANTINE_UID.into(),
            },
            sticky: false,
            // One owner each: the key of an address that is put aside is the address.
            interface: "-".into(),
            ordinal: 0,
            container: format!("{QUARANTINE_UID}-{address}"),
        };
        self.allocator.assign(format!("address {address}"), vec![nobody]).await.map(drop)
    }
}
