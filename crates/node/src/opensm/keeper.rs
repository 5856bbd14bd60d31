//! Between the API server and the supervisor.

use super::{Program, Supervisor, Wish, port};
use crate::{call::bounded, error::chain, install::is_left};
use ferroband_api::ferroband::{SubnetManagerHost, SubnetManagerHostStatus};
use ferroband_daemon::watching::{Cache, follow, map};
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

/// How often it is looked after.
const LOOK: Duration = Duration::from_secs(1);
/// How often on a node that is not chosen.
const IDLE: Duration = Duration::from_secs(30);

/// Keep this node's opensm as its object says, for ever. Whoever asks this to end leaves opensm running: the next daemon takes
/// it over.
pub async fn keep(client: Client, node: String, root: Root, hardware: Arc<dyn Hardware>, program: Program) {
    let cache: Arc<Cache<SubnetManagerHost>> = Arc::default();
    let api: Api<SubnetManagerHost> = Api::all(client);
    let own = watcher::Config::default().fields(&format!("metadata.name={node}"));
    let kept = cache.clone();
    let watching = follow("this node's subnet manager", api.clone(), own, move |event| {
        kept.apply(map(event, |object: SubnetManagerHost| {
            ((String::new(), object.name_any()), Some(object))
        }));
    });
    let keeping = async {
        // Nothing is ended because nothing is known.
        cache.complete().await;
        let mut changes = cache.changes();
        let mut supervisor = Supervisor::new(program, move |label| port(hardware.root(), label));
        loop {
            changes.mark_unchanged();
            let object = cache.get("", &node).filter(|_| !is_left(&root));
            let wish = object.as_deref().map(Wish::of);
            let step = spawn_blocking(move || {
                let status = supervisor.step(wish.as_ref(), Instant::now());
                (supervisor, status)
            });
            let Ok((back, status)) = step.await else { return };
            supervisor = back;
            if object.as_ref().is_some_and(|object| object.status.as_ref() != Some(&status)) {
                tell(&api, &node, &status).await;
            }
            let pause = if object.is_some() { LOOK } else { IDLE };
            let _ = tokio::time::timeout(pause, changes.changed()).await;
        }
    };
    tokio::join!(watching, keeping);
}

async fn tell(api: &Api<SubnetManagerHost>, node: &str, status: &SubnetManagerHostStatus) {
    let object = json!({
        "apiVersion": "ferroband.io/v1alpha1", "kind": "SubnetManagerHost", "metadata": {"name": node}, "status": status,
    });
    let params = PatchParams::apply("ferroband-node").force();
    if let Err(error) = bounded(api.patch_status(node, &params, &Patch::Apply(&object))).await {
        warn!(error = %chain(&error), "how opensm is cannot be told; trying again");
    }
}
