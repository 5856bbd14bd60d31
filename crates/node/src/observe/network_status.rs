//! The annotation `network-status`: what a pod got.

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

/// How long recording is tried before the ADD fails and undoes itself.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause between two attempts.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// Records what pods got.
#[derive(Clone)]
pub struct NetworkStatusWriter {
    client: Client,
}

impl NetworkStatusWriter {
    /// By way of `client`.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Record the `outcomes` of `plan` on the pod, in one PATCH; with `asked`, the annotation that the pod asks for its
    /// networks with, also what others are to read in that one.
    pub async fn record(
        &self,
        plan: &Plan,
        known: &PodRef,
        outcomes: &[AttachmentOutcome],
        asked: Option<(&str, &[(usize, IbKubernetesMark)])>,
    ) -> Result<(), Fault> {
        let marked = asked.and_then(|(asked, marks)| add_ib_kubernetes_marks(plan, known, asked, marks));
        let Some(patch) = build_patch(plan, known, outcomes, marked).map(Patch::Merge) else { return Ok(()) };
        // Only the metadata comes back; nobody needs the rest.
        let pods: Api<PartialObjectMeta<Pod>> = Api::namespaced(self.client.clone(), &known.namespace);
        let until = Instant::now() + WRITE_TIMEOUT;
        loop {
            let parameters = PatchParams::default();
            let call = pods.patch_subresource("status", &known.name, &parameters, &patch);
            let Err(error) = with_timeout(call).await else { return Ok(()) };
            match classify(&error) {
                // Others write the same pod, faster than the API server can merge. Ours holds whatever they wrote.
                ApiFailure::Conflict if is_contended(&error) && Instant::now() < until => {
                    sleep(RETRY_DELAY).await;
                }
                // Gone, or made again under the same name: nobody reads this any more, and DEL comes.
                ApiFailure::NotFound | ApiFailure::Conflict => {
                    info!(pod = %known, "is gone; its networks are not recorded");
                    return Ok(());
                }
                ApiFailure::Unavailable if Instant::now() < until => {
                    warn!(pod = %known, error = %error_chain(&error), "cannot record its networks; trying again");
                    sleep(RETRY_DELAY).await;
                }
                ApiFailure::Unavailable | ApiFailure::Rejected => {
                    let object = format!("status of pod {known}");
                    return Err(Error::Api { action: "patch", object, source: Box::new(error) }.fault());
                }
            }
        }
    }
}

/// Whether a conflict is about the version of an object that is still the same one.
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

/// The patch; nothing when there is nothing to tell.
fn build_patch(
    plan: &Plan,
    known: &PodRef,
    outcomes: &[AttachmentOutcome],
    marked: Option<String>,
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
    if let Some(marked) = marked {
        annotations[NETWORKS] = marked.into();
    }
    // With the UID in it the API server refuses the patch if the name stands for another pod by now.
    Some(json!({ "metadata": { "uid": known.uid, "annotations": annotations } }))
}

/// The annotation with the marks of ib-kubernetes, if they are not there yet. Its networks are the last of the plan's.
fn add_ib_kubernetes_marks(
    plan: &Plan,
    known: &PodRef,
    asked: &str,
    marks: &[(usize, IbKubernetesMark)],
) -> Option<String> {
    let count = NetworkSelection::parse_networks(asked, &known.namespace).ok()?.len();
    let first = plan.attachments.len().checked_sub(count)?;
    let of_annotation = marks.iter().filter_map(|(attachment, mark)| {
        Some(IbKubernetesMark { position: attachment.checked_sub(first)?, ..mark.clone() })
    });
    mark_configured(asked, &known.namespace, &of_annotation.collect::<Vec<_>>()).ok()?
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
    fn every_attachment_is_told_and_the_patch_holds_for_this_very_pod() {
        let pod = PodRef { namespace: "default".into(), name: "a".into(), uid: "u1".into() };
        let attachments = vec![attachment("k8s", "eth0", true), attachment("default/ib", "net1", false)];
        let plan = Plan { pod: pod.clone(), attachments, membership: false };
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
            "the default network is in no annotation"
        );
        let told = add_ib_kubernetes_marks(&plan, &pod, "ib", &[mark(1)]);
        let patch = build_patch(&plan, &pod, &outcomes, told.clone()).unwrap();
        assert_eq!(patch["metadata"]["annotations"][NETWORKS], json!(told.expect("a mark")));
        assert_eq!(patch["metadata"]["uid"], "u1");
        let text = patch["metadata"]["annotations"][NETWORK_STATUS].as_str().unwrap();
        let told: Value = serde_json::from_str(text).unwrap();
        assert_eq!(
            told,
            json!([
                {"name": "k8s", "interface": "eth0", "ips": ["10.0.0.5"], "default": true, "dns": {}},
                {"name": "default/ib", "interface": "net1", "ips": ["192.168.0.1"], "dns": {}},
            ])
        );
    }

    #[test]
    fn nothing_to_tell_is_no_patch() {
        let pod = PodRef { namespace: "default".into(), name: "a".into(), uid: "u1".into() };
        let plan =
            Plan { pod: pod.clone(), attachments: vec![attachment("k8s", "eth0", true)], membership: false };
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

    /// An API server that answers its calls in turn with these codes, then well. Tells how often it was called.
    async fn recorded(answers: Vec<(u16, &'static str)>) -> (Result<(), Fault>, usize) {
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

    /// Its networks go with the sandbox: DEL comes, and takes the GUID out of its partition.
    #[tokio::test(start_paused = true)]
    async fn case_56_a_pod_that_is_gone_is_left_alone_and_one_that_others_write_is_written_again() {
        let contended = "Operation cannot be fulfilled on pods \"p\": the object has been modified";
        let replaced = "Precondition failed: UID in precondition: u1, UID in object meta: u2";
        for (answers, calls) in [
            (vec![(404, "pods \"p\" not found")], 1),
            (vec![(409, replaced)], 1),
            (vec![(409, contended), (409, contended)], 3),
            (vec![(503, "away")], 2),
        ] {
            let (done, called) = recorded(answers.clone()).await;
            assert!(done.is_ok(), "{answers:?}: {done:?}");
            assert_eq!(called, calls, "{answers:?}");
        }
        let (refused, called) = recorded(vec![(403, "forbidden")]).await;
        assert!(refused.is_err() && called == 1, "an ADD that cannot be recorded fails, and undoes itself");
    }
}
