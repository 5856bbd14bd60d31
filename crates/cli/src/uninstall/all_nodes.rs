//! The whole cluster left: what one node does, on all of them.

use anyhow::{Context, bail};
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;
use std::{
    io::{Write, stdout},
    time::Duration,
};
use tokio::time::{Instant, sleep};

const DAEMONSET_NAME: &str = "ferroband-node";

/// Make the node daemons of a namespace leave their nodes, and wait `patience` for them: each is replaced by one that runs
/// `ferroband uninstall --hold`. A node that is away is not waited for longer.
pub async fn uninstall_all_nodes(namespace: &str, patience: Duration) -> anyhow::Result<()> {
    let client = Client::try_default().await.context("no way to the API server; is KUBECONFIG set?")?;
    let api: Api<DaemonSet> = Api::namespaced(client, namespace);
    let Some(there) =
        api.get_opt(DAEMONSET_NAME).await.with_context(|| format!("reading DaemonSet {DAEMONSET_NAME}"))?
    else {
        writeln!(stdout(), "no DaemonSet {DAEMONSET_NAME} in namespace {namespace}: nothing to leave")?;
        return Ok(());
    };
    let patch = uninstall_patch(&there)?;
    let told = api.patch(DAEMONSET_NAME, &PatchParams::default(), &Patch::Strategic(&patch)).await;
    let generation =
        told.with_context(|| format!("changing DaemonSet {DAEMONSET_NAME}"))?.metadata.generation;
    let until = Instant::now() + patience;
    loop {
        let seen =
            api.get(DAEMONSET_NAME).await.with_context(|| format!("reading DaemonSet {DAEMONSET_NAME}"))?;
        let (done, all) = progress(&seen, generation);
        if done == all || Instant::now() > until {
            writeln!(stdout(), "{done} of {all} nodes are left")?;
            return Ok(());
        }
        sleep(Duration::from_millis(500)).await;
    }
}

/// The change that makes every daemon leave its node.
fn uninstall_patch(there: &DaemonSet) -> anyhow::Result<serde_json::Value> {
    let pod = there.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    if !pod.is_some_and(|pod| pod.containers.iter().any(|container| container.name == "node")) {
        bail!("DaemonSet {} has no container `node`", there.name_any());
    }
    Ok(json!({"spec": {
        // All at once: nobody is served any more.
        "updateStrategy": {"rollingUpdate": {"maxUnavailable": "100%"}},
        // Nobody is asked whether an ADD could be served.
        "template": {"spec": {"containers": [{"name": "node", "args": ["uninstall", "--hold"], "readinessProbe": null}]}},
    }}))
}

/// How many nodes have the new daemon running, of how many.
fn progress(seen: &DaemonSet, generation: Option<i64>) -> (i32, i32) {
    let Some(status) = &seen.status else { return (0, 1) };
    if status.observed_generation < generation {
        return (0, status.desired_number_scheduled.max(1));
    }
    let updated = status.updated_number_scheduled.unwrap_or_default();
    (updated.min(status.number_ready), status.desired_number_scheduled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn daemonset(value: serde_json::Value) -> DaemonSet {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn only_a_daemon_of_ours_is_told() {
        let of = |container: &str| {
            let pod = json!({"containers": [{"name": container, "args": ["node"]}]});
            let spec = json!({"selector": {}, "template": {"spec": pod}});
            uninstall_patch(&daemonset(json!({"metadata": {"name": "d"}, "spec": spec})))
        };
        let containers = &of("node").unwrap()["spec"]["template"]["spec"]["containers"];
        assert_eq!(containers[0]["args"], json!(["uninstall", "--hold"]));
        assert!(of("other").is_err());
    }

    #[test]
    fn only_what_is_new_counts() {
        let seen = |generation: i64, updated: i32| {
            daemonset(json!({"metadata": {}, "status": {
                "observedGeneration": generation, "updatedNumberScheduled": updated, "numberReady": 3,
                "desiredNumberScheduled": 3, "currentNumberScheduled": 3, "numberMisscheduled": 0,
            }}))
        };
        assert_eq!(progress(&seen(1, 3), Some(2)), (0, 3));
        assert_eq!(progress(&seen(2, 1), Some(2)), (1, 3));
        assert_eq!(progress(&seen(2, 3), Some(2)), (3, 3));
    }
}
