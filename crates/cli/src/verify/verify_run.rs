//! The steps of `ferroband verify`: create the two pods, wait for the ping, delete the pods.

use super::pods::{INTERFACE, LABEL, VerifyPods};
use anyhow::{Context, Result, bail};
use ferroband_api::annotation::{NETWORK_STATUS, StatusEntry};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{DeleteParams, ListParams, LogParams, PostParams};
use kube::{Api, Client, ResourceExt};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// How often the pods are read while waiting until they are ready, finished or deleted.
const POLL_INTERVAL: Duration = Duration::from_millis(300);
/// Time limit for the deletion of the pods.
const DELETE_TIMEOUT: Duration = Duration::from_secs(60);

pub struct VerifyRun {
    client: Client,
    pods: Api<Pod>,
    pub pod_specs: VerifyPods,
}

impl VerifyRun {
    pub fn new(client: Client, specs: VerifyPods) -> Self {
        Self { pods: Api::namespaced(client.clone(), &specs.namespace), client, pod_specs: specs }
    }

    /// Deletes finished pods of earlier runs that were killed before they could clean up.
    pub async fn delete_leftovers(&self) {
        let all = ListParams::default().labels(LABEL);
        for pod in self.pods.list(&all).await.map(|list| list.items).unwrap_or_default() {
            if matches!(phase(&pod), "Succeeded" | "Failed") {
                // Ignore errors: another run may delete the pod at the same time.
                let _ = self.pods.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await;
            }
        }
    }

    /// Creates a pod on node `one`, then a pod on node `other` that pings it. Fails if there is no reply.
    pub async fn run(&self, one: &str, other: &str) -> Result<()> {
        let specs = &self.pod_specs;
        println!("network {}: from {other} to {one}", specs.network);
        let begin = Instant::now();
        self.create_pod(&specs.target_pod(one)?).await?;
        let pod = self
            .wait_for(&specs.name('a'), |pod| {
                phase(pod) == "Running" && pod.annotations().contains_key(NETWORK_STATUS)
            })
            .await?;
        let ips = addresses(&pod)?;
        let address_list = if ips.is_empty() { "no address".to_owned() } else { ips.join(", ") };
        println!(
            "  {} on {one}: {INTERFACE} has {address_list} ({:.1} s)",
            pod.name_any(),
            begin.elapsed().as_secs_f32()
        );
        let address = ips
            .first()
            .context("the network assigned no address to ping; add `ipam` to its configuration")?;

        let begin = Instant::now();
        self.create_pod(&specs.ping_pod(other, address)?).await?;
        let name = specs.name('b');
        let pod = self.wait_for(&name, |pod| matches!(phase(pod), "Succeeded" | "Failed")).await?;
        let log = self.pods.logs(&name, &LogParams::default()).await.unwrap_or_default();
        let summary =
            log.lines().find(|line| line.contains("packets transmitted")).unwrap_or("no reply").trim();
        println!("  {name} on {other}: {summary} ({:.1} s)", begin.elapsed().as_secs_f32());
        match phase(&pod) {
            "Succeeded" => {
                println!("ok: {other} reaches {one} over {}", specs.network);
                Ok(())
            }
            _ => bail!("{other} cannot reach {one} ({address}) over {}:\n{log}", specs.network),
        }
    }

    /// Deletes the pods and waits until they are gone, so that their addresses are released.
    pub async fn delete_pods(&self) -> Result<()> {
        let selector = ListParams::default().labels(&self.pod_specs.selector());
        let until = Instant::now() + DELETE_TIMEOUT;
        let mut gone = false;
        loop {
            let remaining = self.pods.list(&selector).await?.items;
            if remaining.is_empty() {
                // Succeed only if two consecutive list calls return no pods: a create request may have been
                // in flight when the run was interrupted.
                if gone {
                    return Ok(());
                }
                gone = true;
                sleep(POLL_INTERVAL).await;
                continue;
            }
            gone = false;
            if Instant::now() > until {
                bail!("{} pods still exist after {DELETE_TIMEOUT:?}", remaining.len());
            }
            for pod in remaining.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
                self.pods.delete(&pod.name_any(), &DeleteParams::default()).await?;
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    async fn create_pod(&self, pod: &Pod) -> Result<()> {
        self.pods
            .create(&PostParams::default(), pod)
            .await
            .with_context(|| format!("cannot create pod {}", pod.name_any()))?;
        Ok(())
    }

    /// Waits until `specs` returns true for the pod. If the pod fails or the time limit passes, returns an
    /// error with the pod's last warning event.
    async fn wait_for(&self, name: &str, specs: impl Fn(&Pod) -> bool) -> Result<Pod> {
        let until = Instant::now() + self.pod_specs.step;
        loop {
            let pod = self.pods.get(name).await.with_context(|| format!("cannot read pod {name}"))?;
            if specs(&pod) {
                return Ok(pod);
            }
            if Instant::now() > until || phase(&pod) == "Failed" {
                let warning = self.last_warning(&pod).await.unwrap_or_else(|| "no warning event".to_owned());
                bail!("pod {name} is {}: {warning}", phase(&pod));
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Message of the last warning event that Ferroband published about the pod, or else of the last one from any
    /// source.
    async fn last_warning(&self, pod: &Pod) -> Option<String> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.pod_specs.namespace);
        let about =
            ListParams::default().fields(&format!("type=Warning,involvedObject.name={}", pod.name_any()));
        let list = events.list(&about).await.ok()?.items;
        let selector = |event: &&Event| {
            let source = event.source.as_ref().and_then(|source| source.component.as_deref());
            source.is_some_and(|from| from.starts_with("ferroband"))
        };
        let event = list.iter().rfind(selector).or(list.last());
        event?.message.clone()
    }
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

/// Addresses of `INTERFACE`, read from the pod's network-status annotation.
fn addresses(pod: &Pod) -> Result<Vec<String>> {
    let text = pod.annotations().get(NETWORK_STATUS).map(String::as_str).unwrap_or("[]");
    let entries: Vec<StatusEntry> =
        serde_json::from_str(text).context("invalid annotation network-status of the test pod")?;
    let entry = entries.into_iter().find(|entry| entry.interface.as_deref() == Some(INTERFACE));
    Ok(entry
        .with_context(|| {
            format!("the test pod has no interface {INTERFACE} in its annotation network-status")
        })?
        .ips)
}
