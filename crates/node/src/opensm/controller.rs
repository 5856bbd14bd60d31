//! Runs the opensm supervisor according to this node's SubnetManagerHost object.

use super::{DesiredOpensm, OpensmProgram, OpensmSupervisor, select_port};
use crate::{api_call::with_timeout, error::error_chain, install::is_uninstalled};
use ferroband_api::ferroband::{SubnetManagerHost, SubnetManagerHostStatus};
use ferroband_daemon::{WatchCache, map_event, watch_forever};
use ferroband_kernel::{Hardware, Root};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
    runtime::watcher,
};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::spawn_blocking;
use tracing::warn;

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
    let cache: Arc<WatchCache<SubnetManagerHost>> = Arc::default();
    let api: Api<SubnetManagerHost> = Api::all(client);
    let field_selector = watcher::Config::default().fields(&format!("metadata.name={node}"));
    let events = cache.clone();
    let watching =
        watch_forever("SubnetManagerHost of this node", api.clone(), field_selector, move |event| {
            events.apply(map_event(event, |object: SubnetManagerHost| {
                ((String::new(), object.name_any()), Some(object))
            }));
        });
    let keeping = async {
        // Before the cache is synced, the SubnetManagerHost object seems to be missing, which would stop
        // opensm.
        cache.wait_synced().await;
        let mut changes = cache.changes();
        let mut supervisor = OpensmSupervisor::new(program, move |label| select_port(hardware.root(), label));
        loop {
            changes.mark_unchanged();
            let object = cache.get("", &node).filter(|_| !is_uninstalled(&root));
            let desired = object.as_deref().map(DesiredOpensm::from_object);
            let step = spawn_blocking(move || {
                let status = supervisor.reconcile(desired.as_ref(), Instant::now());
                (supervisor, status)
            });
            let Ok((returned, status)) = step.await else { return };
            supervisor = returned;
            if object.as_ref().is_some_and(|object| object.status.as_ref() != Some(&status)) {
                update_status(&api, &node, &status).await;
            }
            let pause = if object.is_some() { RECONCILE_INTERVAL } else { IDLE_INTERVAL };
            let _ = tokio::time::timeout(pause, changes.changed()).await;
        }
    };
    tokio::join!(watching, keeping);
}

async fn update_status(api: &Api<SubnetManagerHost>, node: &str, status: &SubnetManagerHostStatus) {
    let object = json!({
        "apiVersion": "ferroband.io/v1alpha1", "kind": "SubnetManagerHost", "metadata": {"name": node}, "status": status,
    });
    let params = PatchParams::apply("ferroband-node").force();
    if let Err(error) = with_timeout(api.patch_status(node, &params, &Patch::Apply(&object))).await {
        warn!(error = %error_chain(&error), "cannot update SubnetManagerHost status, retrying");
    }
}
