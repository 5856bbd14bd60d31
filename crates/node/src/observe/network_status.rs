//! Writes the `network-status` annotation of pods.

use crate::{
    Error,
    api_call::{ApiFailure, classify, with_timeout},
    error::error_chain,
};
use ferroband_api::annotation::{
    AttachedNetworkResult, IbKubernetesMark, NETWORK_STATUS, NETWORKS, NetworkSelection, mark_configured,
    render_status,
};
use ferroband_attach::{message::AttachmentOutcome, plan::Plan};
use ferroband_daemon::lengthened;
use ferroband_model::{Fault, PodRef};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
    core::PartialObjectMeta,
};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

/// How long a write is retried before the ADD fails and is rolled back.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
const RETRY_DELAY: Duration = Duration::from_millis(500);

#[derive(Clone)]
pub struct NetworkStatusWriter {
    client: Client,
}

impl NetworkStatusWriter {
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Writes the `outcomes` of `plan` to the pod's `network-status` annotation with one PATCH. If the pod
    /// has a networks annotation, `annotation` contains it, and the same PATCH adds the fields that
    /// ib-kubernetes would set in it, such as the GUID.
    pub async fn record(
        &self,
        plan: &Plan,
        pod: &PodRef,
        outcomes: &[AttachmentOutcome],
        annotation: Option<(&str, &[(usize, IbKubernetesMark)])>,
    ) -> Result<(), Fault> {
        let marked_annotation =
            annotation.and_then(|(annotation, marks)| add_ib_kubernetes_marks(plan, pod, annotation, marks));
        let Some(patch) = build_patch(plan, pod, outcomes, marked_annotation).map(Patch::Merge) else {
            return Ok(());
        };
        // With `PartialObjectMeta`, the API server returns only the pod's metadata.
        let pods: Api<PartialObjectMeta<Pod>> = Api::namespaced(self.client.clone(), &pod.namespace);
        let until = Instant::now() + WRITE_TIMEOUT;
        loop {
            let parameters = PatchParams::default();
            let call = pods.patch_subresource("status", &pod.name, &parameters, &patch);
            let Err(error) = with_timeout(call).await else { return Ok(()) };
            match classify(&error) {
                // Other clients wrote the pod while the API server merged our patch. The patch stays valid,
                // so it is sent again.
                ApiFailure::Conflict if is_contended(&error) && Instant::now() < until => {
                    sleep(lengthened(RETRY_DELAY)).await;
                }
                // The pod is gone or was recreated under the same name. The status is not needed, and a DEL will
                // follow.
                ApiFailure::NotFound | ApiFailure::Conflict => {
                    info!(%pod, "pod is gone, network-status not written");
                    return Ok(());
                }
                ApiFailure::Unavailable if Instant::now() < until => {
                    warn!(%pod, error = %error_chain(&error), "cannot write network-status, retrying");
                    sleep(lengthened(RETRY_DELAY)).await;
                }
                ApiFailure::Unavailable | ApiFailure::Rejected => {
                    let object = format!("network-status of pod {pod}");
                    return Err(Error::Api { action: "patch", object, source: Box::new(error) }.fault());
                }
            }
        }
    }
}

/// Whether a conflict was caused by a concurrent write to the same pod. Otherwise, the pod's UID has changed.
fn is_contended(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let about_uid = status.message.to_lowercase().contains("uid")
        || status
            .details
            .iter()
            .flat_map(|details| &details.causes)
            .any(|cause| cause.field.ends_with("uid"));
    status.code == 409 && !about_uid
}

/// Builds the patch of the pod's annotations. Returns `None` if `outcomes` yields no `network-status` entry.
fn build_patch(
    plan: &Plan,
    pod: &PodRef,
    outcomes: &[AttachmentOutcome],
    marked_annotation: Option<String>,
) -> Option<Value> {
    let entries = outcomes.iter().filter_map(|outcome| {
        let attachment = plan.attachments.get(outcome.attachment)?;
        let attached = AttachedNetworkResult {
            name: &attachment.network,
            interface: &attachment.ifname,
            default: attachment.default,
            result: &outcome.result,
            device_info: outcome.device_info.as_ref(),
        };
        Some(attached.status_entries())
    });
    let entries: Vec<_> = entries.flatten().collect();
    if entries.is_empty() {
        return None;
    }
    let mut annotations = json!({ NETWORK_STATUS: render_status(&entries) });
    if let Some(marked_annotation) = marked_annotation {
        annotations[NETWORKS] = marked_annotation.into();
    }
    // The UID makes the API server reject the patch if the name now belongs to another pod.
    Some(json!({ "metadata": { "uid": pod.uid, "annotations": annotations } }))
}

/// Returns the networks annotation with the fields that ib-kubernetes would set, or `None` if it already has
/// them. The networks of the annotation are the last attachments of the plan.
fn add_ib_kubernetes_marks(
    plan: &Plan,
    pod: &PodRef,
    annotation: &str,
    marks: &[(usize, IbKubernetesMark)],
) -> Option<String> {
    let count = NetworkSelection::parse_networks(annotation, &pod.namespace).ok()?.len();
    let first = plan.attachments.len().checked_sub(count)?;
    let of_annotation = marks.iter().filter_map(|(attachment, mark)| {
        Some(IbKubernetesMark { position: attachment.checked_sub(first)?, ..mark.clone() })
    });
    mark_configured(annotation, &pod.namespace, &of_annotation.collect::<Vec<_>>()).ok()?
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroband_attach::plan::Attachment;
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    fn attachment(network: &str, ifname: &str, default: bool) -> Attachment {
        Attachment {
            network: network.to_owned(),
            name: network.to_owned(),
            cni_version: "1.0.0".to_owned(),
            ifname: ifname.to_owned(),
            default,
            ..Attachment::default()
        }
    }

    #[test]
    fn patch_lists_every_attachment_and_has_the_pods_uid() {
        let pod = PodRef { namespace: "default".into(), name: "a".into(), uid: "u1".into() };
        let attachments = vec![attachment("k8s", "eth0", true), attachment("default/ib", "net1", false)];
        let plan = Plan { pod: pod.clone(), attachments, ..Plan::default() };
        let outcome = |attachment, ifname: &str, ip: &str| AttachmentOutcome {
            attachment,
            result: json!({
                "interfaces": [{"name": ifname, "sandbox": "/run/netns/x"}],
                "ips": [{"address": ip, "interface": 0}],
            }),
            device_info: None,
        };
        let outcomes = [outcome(0, "eth0", "10.0.0.5/24"), outcome(1, "net1", "192.168.0.1/24")];
        let mark = |attachment| {
            let mark = IbKubernetesMark {
                position: 0,
                guid: "02:00:00:00:00:00:00:00".into(),
                pkey: "0x5".into(),
                has_guid_capability: false,
            };
            (attachment, mark)
        };
        assert_eq!(
            add_ib_kubernetes_marks(&plan, &pod, "ib", &[mark(0)]),
            None,
            "the default network is not in the annotation"
        );
        let annotation = add_ib_kubernetes_marks(&plan, &pod, "ib", &[mark(1)]);
        let patch = build_patch(&plan, &pod, &outcomes, annotation.clone()).unwrap();
        assert_eq!(
            patch["metadata"]["annotations"][NETWORKS],
            json!(annotation.expect("a marked annotation"))
        );
        assert_eq!(patch["metadata"]["uid"], "u1");
        let text = patch["metadata"]["annotations"][NETWORK_STATUS].as_str().unwrap();
        let entries: Value = serde_json::from_str(text).unwrap();
        assert_eq!(
            entries,
            json!([
                {"name": "k8s", "interface": "eth0", "ips": ["10.0.0.5"], "default": true, "dns": {}},
                {"name": "default/ib", "interface": "net1", "ips": ["192.168.0.1"], "dns": {}},
            ])
        );
    }

    #[test]
    fn no_entries_means_no_patch() {
        let pod = PodRef { namespace: "default".into(), name: "a".into(), uid: "u1".into() };
        let plan =
            Plan { pod: pod.clone(), attachments: vec![attachment("k8s", "eth0", true)], ..Plan::default() };
        assert_eq!(
            build_patch(
                &plan,
                &pod,
                &[AttachmentOutcome { attachment: 0, result: json!({}), device_info: None }],
                None
            ),
            None
        );
    }

    /// Writes the `network-status` annotation to a fake API server that answers the first requests with
    /// `answers` (HTTP status code and message) and all others with 200. Returns the result and the number of
    /// requests.
    async fn record_with_responses(answers: Vec<(u16, &'static str)>) -> (Result<(), Fault>, usize) {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
            let at = counted.fetch_add(1, Ordering::Relaxed);
            let (code, message) = answers.get(at).copied().unwrap_or((200, ""));
            let body = match code {
                200 => json!({"metadata": {"name": "p"}}),
                _ => json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "metadata": {},
                    "reason": "x", "code": code, "message": message}),
            };
            let body = kube::client::Body::from(body.to_string().into_bytes());
            async move {
                Ok::<_, std::convert::Infallible>(http::Response::builder().status(code).body(body).unwrap())
            }
        });
        let pod = PodRef { namespace: "a".into(), name: "p".into(), uid: "u1".into() };
        let plan = Plan {
            pod: pod.clone(),
            attachments: vec![attachment("k8s", "eth0", true), attachment("a/ib", "net1", false)],
            membership: true,
            ..Plan::default()
        };
        let result = json!({
            "interfaces": [{"name": "net1", "sandbox": "/run/netns/x"}],
            "ips": [{"address": "192.168.0.1/24", "interface": 0}],
        });
        let outcome =
            |attachment| AttachmentOutcome { attachment, result: result.clone(), device_info: None };
        let status = NetworkStatusWriter::new(Client::new(service, "default"));
        let done = status.record(&plan, &pod, &[outcome(0), outcome(1)], None).await;
        (done, calls.load(Ordering::Relaxed))
    }

    /// A missing pod is no error, because a DEL follows, which removes the GUID from its partition.
    // Case: partitions 56
    #[tokio::test(start_paused = true)]
    async fn write_conflicts_are_retried_and_missing_pods_are_ignored() {
        let contended = "Operation cannot be fulfilled on pods \"p\": the object has been modified";
        let replaced = "Precondition failed: UID in precondition: u1, UID in object meta: u2";
        for (answers, calls) in [
            (vec![(404, "pods \"p\" not found")], 1),
            (vec![(409, replaced)], 1),
            (vec![(409, contended), (409, contended)], 3),
            (vec![(503, "away")], 2),
        ] {
            let (done, called) = record_with_responses(answers.clone()).await;
            assert!(done.is_ok(), "{answers:?}: {done:?}");
            assert_eq!(called, calls, "{answers:?}");
        }
        let (refused, called) = record_with_responses(vec![(403, "forbidden")]).await;
        assert!(refused.is_err() && called == 1, "the ADD fails if its status cannot be written");
    }
}
