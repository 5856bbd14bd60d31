//! `ferroband uninstall --all-nodes`: patches the DaemonSet so that every node daemon is replaced by an uninstall pod,
//! and then cleans up the API server.

use super::cluster_cleanup::{clean_cluster, running_pods};
use crate::connection::ClusterConnection;
use anyhow::{Context, bail, ensure};
use ferroband_cluster::FullProjection;
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

/// Removes Ferroband from all nodes and then from the API server, and prints what was removed and what stays. Returns
/// no error if some nodes are not done, for example because they are unreachable. The objects stay in this case,
/// because the daemons of these nodes may still use them.
///
/// Fails before anything is removed if Whereabouts' or Spiderpool's objects cannot hold all addresses of running pods,
/// unless `without_records` is set.
pub async fn uninstall_all_nodes(
    namespace: &str,
    timeout: Duration,
    without_records: bool,
) -> anyhow::Result<()> {
    let client = ClusterConnection::default().client().await?;
    if !without_records {
        let pods = running_pods(&client).await?;
        let projection =
            FullProjection::read(&client, &pods).await.context("cannot read the assigned addresses")?;
        let too_large = projection.too_large();
        ensure!(
            too_large.is_empty(),
            "{}; delete pods of these pools, or continue with --without-records if no other system assigns addresses of \
             these pools while the pods run",
            too_large.join("; ")
        );
    }
    if !replace_node_daemons(&client, namespace, timeout).await? {
        writeln!(
            stdout(),
            "stays: all objects of Ferroband; run this command again when all nodes are reachable"
        )?;
        return Ok(());
    }
    let report = clean_cluster(&client, namespace, timeout).await;
    for line in &report.written {
        writeln!(stdout(), "written: {line}")?;
    }
    for line in &report.removed {
        writeln!(stdout(), "removed: {line}")?;
    }
    for line in &report.stays {
        writeln!(stdout(), "stays: {line}")?;
    }
    Ok(())
}

/// Replaces the node daemons by pods that run `ferroband uninstall --hold`, and waits up to `timeout` until
/// these pods are ready. Returns whether they are ready on all nodes.
async fn replace_node_daemons(client: &Client, namespace: &str, timeout: Duration) -> anyhow::Result<bool> {
    let api: Api<DaemonSet> = Api::namespaced(client.clone(), namespace);
    let Some(current) = api
        .get_opt(DAEMONSET_NAME)
        .await
        .with_context(|| format!("cannot read DaemonSet {DAEMONSET_NAME}"))?
    else {
        writeln!(
            stdout(),
            "no DaemonSet {DAEMONSET_NAME} in namespace {namespace}: no node to uninstall from"
        )?;
        return Ok(true);
    };
    let patch = uninstall_patch(&current)?;
    let patched = api.patch(DAEMONSET_NAME, &PatchParams::default(), &Patch::Strategic(&patch)).await;
    let generation =
        patched.with_context(|| format!("cannot patch DaemonSet {DAEMONSET_NAME}"))?.metadata.generation;
    let until = Instant::now() + timeout;
    loop {
        let daemonset = api
            .get(DAEMONSET_NAME)
            .await
            .with_context(|| format!("cannot read DaemonSet {DAEMONSET_NAME}"))?;
        let (done, all) = progress(&daemonset, generation);
        if done == all || Instant::now() > until {
            writeln!(stdout(), "uninstalled on {done} of {all} nodes")?;
            return Ok(done == all);
        }
        sleep(Duration::from_millis(500)).await;
    }
}

/// Strategic merge patch that makes the container `node` run `ferroband uninstall --hold`. Fails if the DaemonSet has
/// no such container.
fn uninstall_patch(current: &DaemonSet) -> anyhow::Result<serde_json::Value> {
    let pod = current.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    if !pod.is_some_and(|pod| pod.containers.iter().any(|container| container.name == "node")) {
        bail!("DaemonSet {} has no container `node`, so it is not Ferroband's", current.name_any());
    }
    Ok(json!({"spec": {
        // Update all nodes at once. The daemons need not stay available, because new pods get no networks of
        // Ferroband.
        "updateStrategy": {"rollingUpdate": {"maxUnavailable": "100%"}},
        // Remove the readiness probe: it would fail, because no daemon runs in the pod any more.
        "template": {"spec": {"containers": [{"name": "node", "args": ["uninstall", "--hold"], "readinessProbe": null}]}},
    }}))
}

/// Returns the number of nodes on which the uninstall pod is ready, and the number of nodes that should run
/// this pod.
fn progress(daemonset: &DaemonSet, generation: Option<i64>) -> (i32, i32) {
    let Some(status) = &daemonset.status else { return (0, 1) };
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
    fn only_ferrobands_daemonset_is_patched() {
        let patch_for = |container: &str| {
            let pod = json!({"containers": [{"name": container, "args": ["node"]}]});
            let spec = json!({"selector": {}, "template": {"spec": pod}});
            uninstall_patch(&daemonset(json!({"metadata": {"name": "d"}, "spec": spec})))
        };
        let containers = &patch_for("node").unwrap()["spec"]["template"]["spec"]["containers"];
        assert_eq!(containers[0]["args"], json!(["uninstall", "--hold"]));
        assert!(patch_for("other").is_err());
    }

    #[test]
    fn only_updated_pods_count() {
        let daemonset = |generation: i64, updated: i32| {
            daemonset(json!({"metadata": {}, "status": {
                "observedGeneration": generation, "updatedNumberScheduled": updated, "numberReady": 3,
                "desiredNumberScheduled": 3, "currentNumberScheduled": 3, "numberMisscheduled": 0,
            }}))
        };
        assert_eq!(progress(&daemonset(1, 3), Some(2)), (0, 3));
        assert_eq!(progress(&daemonset(2, 1), Some(2)), (1, 3));
        assert_eq!(progress(&daemonset(2, 3), Some(2)), (3, 3));
    }
}
