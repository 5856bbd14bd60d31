//! What the wire says about the addresses of a pod, and what follows.

use super::Decider;
use crate::{
    address::{Finding, Mode, QUARANTINE, findings},
    plan::Wanted,
};
use ferroband_address::{Pool, Release, Request};
use ferroband_attach::plan::{Assigned, Plan};
use ferroband_kernel::Netns;
use ferroband_model::{Fault, PodRef};
use std::{net::IpAddr, sync::Arc, time::Duration};
use tokio::runtime::Handle;
use tracing::{info, warn};

/// So many addresses in a row may be somebody else's.
const TRIES: usize = 4;
/// How long a change of the granules is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

impl Decider {
    /// Before the pod gets them: addresses that somebody else has are put aside, and others take their place.
    pub(super) fn enforce(
        &self,
        plan: &Plan,
        wanted: &[Wanted],
        mut assigned: Vec<Assigned>,
        netns: &Netns,
        runtime: &Handle,
    ) -> Result<Vec<Assigned>, Fault> {
        for _ in 0..TRIES {
            let questions = self.probing.questions(Mode::Enforce, plan, &assigned);
            let found = match findings(netns, &questions) {
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
            for Finding { place, fault, .. } in &found {
                warn!(%fault, "put aside");
                let address = assigned[place.position].ips[place.ip].address.addr();
                let requests = &wanted[place.position].requests;
                runtime.block_on(self.quarantine(requests, address)).map_err(|_| fault.clone())?;
            }
            assigned = runtime.block_on(self.addresses(wanted.to_vec()))?;
        }
        let questions = self.probing.questions(Mode::Enforce, plan, &assigned);
        match findings(netns, &questions).ok().and_then(|found| found.into_iter().next()) {
            Some(finding) => Err(finding.fault),
            None => Ok(assigned),
        }
    }

    /// After the pod has them, on a thread of its own: what is wrong is told.
    pub(super) fn look_afterwards(
        &self,
        plan: &Plan,
        assigned: &[Assigned],
        netns: Netns,
        pod: &PodRef,
        runtime: &Handle,
    ) {
        let questions = self.probing.questions(Mode::Warn, plan, assigned);
        if questions.is_empty() {
            return;
        }
        let (events, pod, runtime) = (self.events.clone(), pod.clone(), runtime.clone());
        let looking = move || match findings(&netns, &questions) {
            Ok(found) => {
                for Finding { duplicate, fault, .. } in found {
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
    async fn quarantine(&self, requests: &[Request], address: IpAddr) -> Result<(), Fault> {
        let keeps = |request: &&Request| request.pools.iter().any(|pool| pool.keeps(address));
        let Some(request) = requests.iter().find(keeps) else { return Ok(()) };
        let Some(pool) = request.pools.iter().find(|pool| pool.keeps(address)) else { return Ok(()) };
        let release =
            Release { container: request.container.clone(), interface: Some(request.interface.clone()) };
        self.desk.release(release, PATIENCE).await;
        let window = [(address, address)];
        let only = Pool::new(pool.name(), pool.space().clone(), pool.subnet(), window, &[], None);
        let Ok(only) = only else { return Ok(()) };
        let nobody = Request {
            pools: vec![Arc::new(only)],
            pod: PodRef { namespace: QUARANTINE.into(), name: address.to_string(), uid: QUARANTINE.into() },
            sticky: false,
            // One owner each: the key of an address that is put aside is the address.
            interface: "-".into(),
            ordinal: 0,
            container: format!("{QUARANTINE}-{address}"),
        };
        self.desk.assign(format!("address {address}"), vec![nobody]).await.map(drop)
    }
}
