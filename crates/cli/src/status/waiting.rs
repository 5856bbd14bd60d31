//! Why a pod waits: failed sandboxes, the scheduler's condition, and resources that no node offers.

use super::ClusterObjects;
use ferroband_model::FaultCode;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::jiff::Timestamp;
use std::collections::BTreeSet;

/// Reason of the kubelet's event about a sandbox that could not be created. Its message contains the CNI error. A
/// failure while the node daemon is away, or one that only `ferroband-cni` sees, has no other event.
const SANDBOX_FAILED: &str = "FailedCreatePodSandBox";
/// Text of the container runtime before the CNI error.
const BEFORE_CNI_ERROR: &str = "failed (add): ";

/// Why a pod waits.
#[derive(Debug, PartialEq, Eq)]
pub struct WaitReason {
    /// Error code, or else the reason of the event or condition.
    pub state: String,
    pub message: Option<String>,
    /// What the user should do.
    pub remedy: String,
    /// Whether Ferroband reported the failure. Otherwise the pod is of interest only if it requests a network.
    pub is_own: bool,
}

/// Returns why `pod` waits, or `None` if nothing says so.
pub fn wait_reason(objects: &ClusterObjects, pod: &Pod) -> Option<WaitReason> {
    sandbox_failure(objects, pod).or_else(|| missing_resource(objects, pod)).or_else(|| not_scheduled(pod))
}

/// The last failure to create the pod's sandbox. A pod with an IP address has a sandbox, so its failures are past.
fn sandbox_failure(objects: &ClusterObjects, pod: &Pod) -> Option<WaitReason> {
    if pod.status.as_ref().is_some_and(|status| status.pod_ip.is_some()) {
        return None;
    }
    let about = objects.events.iter().filter(|event| is_about(event, pod) && is_sandbox_failure(event));
    let event = about.max_by_key(|event| last_seen(event))?;
    let text = event.message.as_deref().unwrap_or_default();
    let code = FaultCode::find_in(text).or_else(|| FaultCode::from_name(event.reason.as_deref()?));
    let own_text = text.split_once(BEFORE_CNI_ERROR).map_or(text, |(_, error)| error);
    Some(match code {
        Some(code) => WaitReason {
            state: code.reason().to_owned(),
            message: Some(own_text.to_owned()),
            remedy: format!("run `ferroband explain {}`", code.reason()),
            is_own: true,
        },
        None => WaitReason {
            state: event.reason.clone().unwrap_or_default(),
            message: Some(text.to_owned()),
            remedy: "check the plugin or program that the message names".to_owned(),
            is_own: is_from_ferroband(event),
        },
    })
}

fn is_about(event: &Event, pod: &Pod) -> bool {
    let uid = event.involved_object.uid.as_deref();
    uid.is_some() && uid == pod.metadata.uid.as_deref()
}

fn is_sandbox_failure(event: &Event) -> bool {
    is_from_ferroband(event) || event.reason.as_deref() == Some(SANDBOX_FAILED)
}

fn is_from_ferroband(event: &Event) -> bool {
    let source = event.source.as_ref().and_then(|source| source.component.as_deref());
    source.or(event.reporting_component.as_deref()).is_some_and(|from| from.starts_with("ferroband"))
}

/// When the event was last seen. Which field has the time depends on the version of the API that its author used.
fn last_seen(event: &Event) -> Option<Timestamp> {
    let series = event.series.as_ref().and_then(|series| Some(series.last_observed_time.as_ref()?.0));
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    let first = event.event_time.as_ref().map(|time| time.0);
    let created = event.metadata.creation_timestamp.as_ref().map(|time| time.0);
    series.max(last).max(first).or(created)
}

/// The extended resources that `pod` requests and no node has. If no node has any extended resource at all, the
/// device plugin is missing rather than the name wrong, so the scheduler's message is better.
fn missing_resource(objects: &ClusterObjects, pod: &Pod) -> Option<WaitReason> {
    let failed = not_scheduled(pod)?;
    let offered: BTreeSet<&str> = objects
        .nodes
        .iter()
        .filter_map(|node| node.status.as_ref()?.capacity.as_ref())
        .flat_map(|capacity| capacity.keys().map(String::as_str))
        .filter(|name| is_extended(name))
        .collect();
    let unknown: BTreeSet<&str> =
        requested_resources(pod).filter(|name| is_extended(name) && !offered.contains(name)).collect();
    if unknown.is_empty() || offered.is_empty() {
        return None;
    }
    let list = |names: &BTreeSet<&str>| names.iter().copied().collect::<Vec<_>>().join(", ");
    let message = format!("no node offers {}; nodes offer {}", list(&unknown), list(&offered));
    let domain = |name: &str| name.split_once('/').map(|(domain, _)| domain.to_owned());
    Some(WaitReason {
        message: Some(message),
        remedy: "correct the name in the pod's limits or in the annotation k8s.v1.cni.cncf.io/resourceName of its \
                 network, or create a policy or device pool that offers it"
            .to_owned(),
        // A pod without networks is shown only if the name looks like a misspelt one.
        is_own: unknown.iter().any(|name| offered.iter().any(|other| domain(other) == domain(name))),
        ..failed
    })
}

fn requested_resources(pod: &Pod) -> impl Iterator<Item = &str> {
    let spec = pod.spec.iter();
    let containers =
        spec.flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()));
    let resources = containers.filter_map(|container| container.resources.as_ref());
    resources.flat_map(|resources| {
        let all = resources.limits.iter().chain(resources.requests.iter());
        all.flat_map(|amounts| amounts.keys().map(String::as_str))
    })
}

/// Whether `name` is an extended resource: it has a domain, and the domain is not Kubernetes' own.
pub fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/")
}

/// The condition PodScheduled, if it is false.
fn not_scheduled(pod: &Pod) -> Option<WaitReason> {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let refused = conditions.find(|c| c.type_ == "PodScheduled" && c.status == "False")?;
    Some(WaitReason {
        state: refused.reason.clone().unwrap_or_else(|| "Pending".to_owned()),
        message: refused.message.clone(),
        remedy: "provide what the message asks for, such as a ready node or a free resource".to_owned(),
        is_own: false,
    })
}
