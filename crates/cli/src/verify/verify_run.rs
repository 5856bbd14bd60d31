//! The course of a trial.

use super::pods::{INTERFACE, LABEL, VerifyPods};
use anyhow::{Context, Result, bail};
use ferroband_api::annotation::{NETWORK_STATUS, StatusEntry};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{DeleteParams, ListParams, LogParams, PostParams};
use kube::{Api, Client, ResourceExt};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// The pause between two looks.
const POLL_INTERVAL: Duration = Duration::from_millis(300);
/// How long deleted pods may take to go.
const DELETE_TIMEOUT: Duration = Duration::from_secs(60);

/// One trial.
pub struct VerifyRun {
    client: Client,
    pods: Api<Pod>,
    /// What is tried.
    pub pod_specs: VerifyPods,
}

impl VerifyRun {
    /// A trial that has not begun.
    pub fn new(client: Client, wanted: VerifyPods) -> Self {
        Self { pods: Api::namespaced(client.clone(), &wanted.namespace), client, pod_specs: wanted }
    }

    /// Delete what a trial that was killed has left, once its pods have ended.
    pub async fn delete_leftovers(&self) {
        let all = ListParams::default().labels(LABEL);
        for pod in self.pods.list(&all).await.map(|list| list.items).unwrap_or_default() {
            if matches!(phase(&pod), "Succeeded" | "Failed") {
                // Somebody else may be sweeping, too.
                let _ = self.pods.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await;
            }
        }
    }

    /// Have the pod on `other` reach the one on `one`.
    pub async fn run(&self, one: &str, other: &str) -> Result<()> {
        let wanted = &self.pod_specs;
        println!("network {}: from {other} to {one}", wanted.network);
        let begin = Instant::now();
        self.create_pod(&wanted.target_pod(one)?).await?;
        let pod = self
            .wait_for(&wanted.name('a'), |pod| {
                phase(pod) == "Running" && pod.annotations().contains_key(NETWORK_STATUS)
            })
            .await?;
        let ips = addresses(&pod)?;
        let shown = if ips.is_empty() { "no address".to_owned() } else { ips.join(", ") };
        println!(
            "  {} on {one}: {INTERFACE} has {shown} ({:.1} s)",
            pod.name_any(),
            begin.elapsed().as_secs_f32()
        );
        let address = ips
            .first()
            .context("the network gives no address, so there is nothing to reach; add `ipam` to it")?;

        let begin = Instant::now();
        self.create_pod(&wanted.ping_pod(other, address)?).await?;
        let name = wanted.name('b');
        let pod = self.wait_for(&name, |pod| matches!(phase(pod), "Succeeded" | "Failed")).await?;
        let log = self.pods.logs(&name, &LogParams::default()).await.unwrap_or_default();
        let summary =
            log.lines().find(|line| line.contains("packets transmitted")).unwrap_or("no answer").trim();
        println!("  {name} on {other}: {summary} ({:.1} s)", begin.elapsed().as_secs_f32());
        match phase(&pod) {
            "Succeeded" => {
                println!("ok: {other} reaches {one} over {}", wanted.network);
                Ok(())
            }
            _ => bail!("{other} does not reach {one} ({address}) over {}:\n{log}", wanted.network),
        }
    }

    /// Delete the pods, and wait until they are gone: then their addresses are free again.
    pub async fn delete_pods(&self) -> Result<()> {
        let ours = ListParams::default().labels(&self.pod_specs.selector());
        let until = Instant::now() + DELETE_TIMEOUT;
        let mut gone = false;
        loop {
            let left = self.pods.list(&ours).await?.items;
            if left.is_empty() {
                // Seen twice: a request to make one may have been under way when we were interrupted.
                if gone {
                    return Ok(());
                }
                gone = true;
                sleep(POLL_INTERVAL).await;
                continue;
            }
            gone = false;
            if Instant::now() > until {
                bail!("{} are still there after {DELETE_TIMEOUT:?}", left.len());
            }
            for pod in left.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
                self.pods.delete(&pod.name_any(), &DeleteParams::default()).await?;
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    async fn create_pod(&self, pod: &Pod) -> Result<()> {
        self.pods
            .create(&PostParams::default(), pod)
            .await
            .with_context(|| format!("pod {}", pod.name_any()))?;
        Ok(())
    }

    /// Wait until the pod is as wanted; when that takes too long, say what was last heard of it.
    async fn wait_for(&self, name: &str, wanted: impl Fn(&Pod) -> bool) -> Result<Pod> {
        let until = Instant::now() + self.pod_specs.step;
        loop {
            let pod = self.pods.get(name).await.with_context(|| format!("pod {name}"))?;
            if wanted(&pod) {
                return Ok(pod);
            }
            if Instant::now() > until || phase(&pod) == "Failed" {
                let heard =
                    self.last_warning(&pod).await.unwrap_or_else(|| "nothing was heard of it".to_owned());
                bail!("pod {name} is {}: {heard}", phase(&pod));
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// The last warning about a pod, ours before others'.
    async fn last_warning(&self, pod: &Pod) -> Option<String> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.pod_specs.namespace);
        let about =
            ListParams::default().fields(&format!("type=Warning,involvedObject.name={}", pod.name_any()));
        let list = events.list(&about).await.ok()?.items;
        let ours = |event: &&Event| {
            let source = event.source.as_ref().and_then(|source| source.component.as_deref());
            source.is_some_and(|from| from.starts_with("ferroband"))
        };
        let told = list.iter().rfind(ours).or(list.last());
        told?.message.clone()
    }
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

/// The addresses of the pod's first further network.
fn addresses(pod: &Pod) -> Result<Vec<String>> {
    let text = pod.annotations().get(NETWORK_STATUS).map(String::as_str).unwrap_or("[]");
    let entries: Vec<StatusEntry> = serde_json::from_str(text).context("its annotation network-status")?;
    let entry = entries.into_iter().find(|entry| entry.interface.as_deref() == Some(INTERFACE));
    Ok(entry.with_context(|| format!("it has no interface {INTERFACE}"))?.ips)
}
