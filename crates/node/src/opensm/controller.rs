//! Runs the opensm supervisor according to this node's SubnetManagerHost object.

use super::{DesiredOpensm, OpensmProgram, OpensmSupervisor, select_port};
use crate::{Error, FIELD_MANAGER, error::blocking, install::is_uninstalled};
use ferroband_api::ferroband::SubnetManagerHost;
use ferroband_daemon::{
    Controller, ControllerTiming, SharedCache, Trigger, apply_status, named, reflect, run_controller,
};
use ferroband_kernel::{Hardware, Root};
use kube::{Api, Client};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

const RECONCILE_INTERVAL: Duration = Duration::from_secs(1);
/// Reconciliation interval on nodes that do not run opensm.
const IDLE_INTERVAL: Duration = Duration::from_secs(30);

/// Starts, stops and configures opensm on this node, as requested by the node's SubnetManagerHost object. Never
/// returns. When the daemon stops, opensm keeps running, and the next daemon adopts it.
pub async fn run_opensm_controller(
    client: Client,
    node: String,
    root: Root,
    hardware: Arc<dyn Hardware>,
    program: OpensmProgram,
) {
    let (api, cache): (Api<SubnetManagerHost>, _) = (Api::all(client), SharedCache::default());
    let config = named(&node);
    let watching = reflect("SubnetManagerHost of this node", api.clone(), config, cache.clone(), Some);
    // Before the cache is synced, the SubnetManagerHost object seems to be missing, which would stop opensm.
    let trigger = Trigger::default().on_change(&cache);
    let supervisor = OpensmSupervisor::new(program, move |label| select_port(hardware.root(), label));
    let controller =
        OpensmController { api, node, root, cache, supervisor: Arc::new(Mutex::new(supervisor)) };
    tokio::join!(watching, run_controller(controller, trigger));
}

struct OpensmController {
    api: Api<SubnetManagerHost>,
    node: String,
    root: Root,
    cache: SharedCache<SubnetManagerHost>,
    supervisor: Arc<Mutex<OpensmSupervisor>>,
}

impl Controller for OpensmController {
    const NAME: &'static str = "opensm";
    /// A pass fails only if the status cannot be written. opensm must be supervised in an outage of the API server as
    /// well, so the backoff does not grow.
    const TIMING: ControllerTiming = ControllerTiming {
        debounce: Duration::ZERO,
        resync: IDLE_INTERVAL,
        backoff: (RECONCILE_INTERVAL, RECONCILE_INTERVAL),
    };
    type Error = Error;

    async fn reconcile(&self) -> Result<Option<Duration>, Error> {
        let object = self.cache.get("", &self.node).filter(|_| !is_uninstalled(&self.root));
        let desired = object.as_deref().map(DesiredOpensm::from_object);
        let supervisor = self.supervisor.clone();
        let supervise = move || supervisor.lock().reconcile(desired.as_ref(), Instant::now());
        let status = blocking("opensm supervisor", supervise).await?;
        let Some(object) = object else { return Ok(None) };
        if object.status.as_ref() != Some(&status) {
            let failed = Error::api("update the status of", format!("SubnetManagerHost {}", self.node));
            apply_status(&self.api, FIELD_MANAGER, &self.node, &status).await.map_err(failed)?;
        }
        Ok(Some(RECONCILE_INTERVAL))
    }
}
