//! Writes the `network-status` of pods that were attached without the daemon.
//!
//! Such pods get only the cluster's default network. The CNI plugin leaves a file for each of them.

use super::NetworkStatusWriter;
use crate::{
    Error,
    caches::NodePodCache,
    error::{blocking, error_chain},
    pending_files::process_pending,
    resolve::resolve_uid,
};
use ferroband_attach::pending_status::PendingStatus;
use ferroband_kernel::Root;
use ferroband_model::PodRef;
use tracing::{info, warn};

/// Writes the pending statuses under `root`. Returns only errors.
pub async fn write_pending_statuses(
    root: Root,
    pods: NodePodCache,
    writer: NetworkStatusWriter,
) -> Result<(), Error> {
    // Without the cache, every pod would be read from the API server.
    pods.cache().wait_synced().await;
    let list = || async {
        let at = root.clone();
        Ok(blocking("pending files", move || PendingStatus::list(&at)).await??)
    };
    let write = |status| write_one(&root, &pods, &writer, status);
    process_pending(&PendingStatus::dir(&root), list, write).await
}

/// Writes one status and removes its file. Returns `false` if the write must be retried.
///
/// The sandbox is not locked, so that a DEL need not wait for the API server. If the sandbox is deleted meanwhile, the
/// status of the pod's next sandbox replaces this one.
async fn write_one(
    root: &Root,
    pods: &NodePodCache,
    writer: &NetworkStatusWriter,
    pending: PendingStatus,
) -> Result<bool, Error> {
    let container = pending.container().to_owned();
    let (at, status) = (root.clone(), pending.clone());
    match blocking("pending files", move || status.load(&at)).await? {
        // The sandbox was deleted.
        Ok(None) => {}
        Ok(Some((plan, outcomes))) => {
            let facts = match pods.find(&plan.pod).await {
                Ok(facts) => facts,
                Err(e) => {
                    warn!(container, error = %error_chain(&e), "cannot read the pod of a pending network-status");
                    return Ok(false);
                }
            };
            // If the pod is gone or was replaced by another one of the same name, nobody needs the status.
            let pod = facts.and_then(|facts| {
                resolve_uid(&plan.pod, &facts).ok().map(|pod| PodRef { uid: facts.uid.clone(), ..pod })
            });
            if let Some(pod) = pod {
                if let Err(fault) = writer.record(&plan, &pod, &outcomes, None).await {
                    warn!(container, %fault, "cannot write a pending network-status, retrying");
                    return Ok(false);
                }
                info!(container, %pod, "pending network-status written");
            }
        }
        Err(e) => {
            warn!(container, error = %error_chain(&e), "network-status not written: cannot read the journal");
        }
    }
    let at = root.clone();
    blocking("pending files", move || pending.remove(&at)).await??;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{caches::PodFacts, fake_api::FakeApi};
    use ferroband_api::annotation::NETWORK_STATUS;
    use ferroband_attach::{AttachmentId, PluginType, journal::Journal};
    use kube::runtime::watcher::Event;
    use serde_json::{Value, json};
    use std::time::Duration;
    use tokio::time;

    const POD: &str = "/api/v1/namespaces/default/pods/a/status";

    struct StatusFixture {
        api: FakeApi,
        root: Root,
        _folder: tempfile::TempDir,
    }

    impl StatusFixture {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let root = Root::at(folder.path());
            Self { api: FakeApi::default(), root, _folder: folder }
        }

        /// Starts the task with a cache that contains the pod default/a.
        fn start(&self, uid: &str) {
            let client = self.api.client();
            let pods = NodePodCache::new(client.clone());
            let facts = PodFacts { uid: uid.into(), ..PodFacts::default() };
            pods.cache().apply(Event::Init);
            pods.cache().apply(Event::InitApply((("default".into(), "a".into()), Some(facts))));
            pods.cache().apply(Event::InitDone);
            let writer = NetworkStatusWriter::new(client);
            tokio::spawn(write_pending_statuses(self.root.clone(), pods, writer));
        }

        /// Writes the journal and the pending status of a plain pod, as the CNI plugin does.
        fn attach(&self, container: &str) {
            let plugin = json!({"config": {"type": "bridge"}, "by": {"kind": "foreign"}});
            let journal = json!({
                "schema": 1, "role": "ferroband", "boot": "b", "container": container, "ifname": "eth0", "network": "k8s",
                "netns": "/run/netns/x", "netns_id": {"dev": 4, "inode": 1}, "args": "", "daemon": false, "attached": true,
                "pod": {"namespace": "default", "name": "a", "uid": "u"},
                "entries": [{
                    "attachment": {"network": "k8s", "name": "k8s", "cni_version": "1.0.0", "ifname": "eth0",
                        "default": true, "steps": [plugin]},
                    "steps": [{"state": "done"}],
                    "result": {"cniVersion": "1.0.0", "ips": [{"address": "10.1.0.2/24"}]},
                }],
            });
            serde_json::from_value::<Journal>(journal).unwrap().save(&self.root).unwrap();
            self.pending(container).write(&self.root).unwrap();
        }

        fn pending(&self, container: &str) -> PendingStatus {
            PendingStatus::new(AttachmentId::new(PluginType::Ferroband, container, "eth0"))
        }

        async fn wait_until_written(&self) {
            for _ in 0..1500 {
                if PendingStatus::list(&self.root).unwrap().is_empty() {
                    return;
                }
                time::sleep(Duration::from_millis(20)).await;
            }
            panic!("still pending: {:?}", self.api.list_calls());
        }

        fn status(&self) -> Value {
            let patch = self.api.last_body("PATCH", POD);
            assert_eq!(patch["metadata"]["uid"], "u");
            serde_json::from_str(patch["metadata"]["annotations"][NETWORK_STATUS].as_str().unwrap()).unwrap()
        }
    }

    // Case: cni 79
    #[tokio::test]
    async fn statuses_of_plain_pods_are_written_when_the_daemon_starts_and_while_it_runs() {
        let fixture = StatusFixture::new();
        fixture.attach("c1");
        fixture.start("u");
        fixture.wait_until_written().await;
        let status = fixture.status();
        assert_eq!(
            (&status[0]["name"], &status[0]["interface"], &status[0]["ips"][0], &status[0]["default"]),
            (&json!("k8s"), &json!("eth0"), &json!("10.1.0.2"), &json!(true))
        );
        fixture.attach("c2");
        fixture.wait_until_written().await;
        assert_eq!(fixture.api.list_calls(), [format!("PATCH {POD}"), format!("PATCH {POD}")]);
    }

    #[tokio::test]
    async fn no_status_is_written_for_a_deleted_sandbox_or_another_pod_of_the_same_name() {
        let fixture = StatusFixture::new();
        fixture.attach("c1");
        Journal::remove(&fixture.root, &AttachmentId::new(PluginType::Ferroband, "c1", "eth0")).unwrap();
        fixture.attach("c2");
        let pod = json!({"metadata": {"name": "a", "namespace": "default", "uid": "newer"}});
        fixture.api.insert_object("/api/v1/namespaces/default/pods/a", pod);
        fixture.start("newer");
        fixture.wait_until_written().await;
        assert_eq!(fixture.api.list_calls(), ["GET /api/v1/namespaces/default/pods/a"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_status_stays_pending_while_the_api_server_is_unavailable() {
        let fixture = StatusFixture::new();
        fixture.api.set_unavailable(true);
        fixture.attach("c1");
        fixture.start("u");
        time::sleep(Duration::from_secs(60)).await;
        assert_eq!(PendingStatus::list(&fixture.root).unwrap(), [fixture.pending("c1")]);
        fixture.api.set_unavailable(false);
        fixture.wait_until_written().await;
        assert_eq!(fixture.status()[0]["name"], "k8s");
    }
}
