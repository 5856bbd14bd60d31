//! Decides from a pod whether the foreign record of its address is imported, stale or undecided.
//!
//! ```text
//!  record ─┬─▶ its pod exists and reports the address     ─▶ import: the entry gets the pod's node, which releases it
//!          ├─▶ its pod exists and has no sandbox yet      ─▶ import: the pod gets the address again, as in Whereabouts
//!          ├─▶ no such pod, and every node that could     ─▶ the record is stale
//!          │   run it is reporting or fenced
//!          └─▶ anything else                              ─▶ undecided: the address stays withheld
//! ```

use super::{foreign_records::ForeignRecord, statefulset::split_pod_name};
use crate::{ControllerContext, Error, address::caches::AddressCaches};
use ferroband_address::AddressAllocation;
use ferroband_api::annotation::NETWORK_STATUS;
use ferroband_daemon::{addresses::is_stateful, api_call::with_timeout};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt};
use parking_lot::Mutex;
use serde_json::Value;
use std::{
    collections::HashMap,
    net::IpAddr,
    time::{Duration, Instant},
};

/// How long a pod must be absent before the record of its address counts as stale.
const ABSENCE_GRACE_PERIOD: Duration = Duration::from_secs(30);

/// What to do with a foreign record.
#[derive(Clone, Debug, PartialEq)]
pub enum ImportDecision {
    /// The pod has the address, or gets it. Its entry becomes this one.
    Import(AddressAllocation),
    /// No pod has the address, so the record can be removed.
    Stale,
    /// It is not known yet whether a pod has the address.
    Undecided,
}

/// Reads the pods of foreign records.
pub struct ForeignPods {
    context: ControllerContext,
    caches: AddressCaches,
    /// When the pod of a record was first found to be absent, by pod and address.
    absent_since: Mutex<HashMap<(String, IpAddr), Instant>>,
}

impl ForeignPods {
    pub fn new(context: &ControllerContext, caches: AddressCaches) -> Self {
        Self { context: context.clone(), caches, absent_since: Mutex::default() }
    }

    /// Decides about a record. Reads the pod from the API server, because a cache may be outdated.
    pub async fn decide(&self, record: &ForeignRecord) -> Result<ImportDecision, Error> {
        let Some((namespace, name)) = record.pod.split_once('/') else {
            return Ok(ImportDecision::Undecided);
        };
        let api: Api<Pod> = Api::namespaced(self.context.client.clone(), namespace);
        let what = format!("pod {}", record.pod);
        let pod = with_timeout(api.get_opt(name)).await.map_err(Error::api("get", what))?;
        let expected = split_pod_name(name).and_then(|(set, ordinal)| {
            Some(self.caches.stateful_sets.get(namespace, set)?.contains(ordinal))
        });
        let decision = decide_import(record, pod.as_ref(), expected.unwrap_or_default());
        if decision == ImportDecision::Stale && !self.confirm_stale(record) {
            return Ok(ImportDecision::Undecided);
        }
        Ok(decision)
    }

    /// Whether the sandbox of an absent pod is gone as well. This holds if the pod has been absent for the grace period
    /// and every node that could run it is reporting or fenced: its kubelet has then stopped the pods that it should
    /// not run. The first call for a record starts its grace period.
    fn confirm_stale(&self, record: &ForeignRecord) -> bool {
        let key = (record.pod.clone(), record.slot.address);
        let mut absent = self.absent_since.lock();
        absent.retain(|_, since| since.elapsed() < 20 * ABSENCE_GRACE_PERIOD);
        let since = *absent.entry(key).or_insert_with(Instant::now);
        if since.elapsed() < ABSENCE_GRACE_PERIOD {
            return false;
        }
        match self.recorded_node(record) {
            // A deleted node runs no pod that it should not run: its addresses are reclaimed as usual.
            Some(node) => self.caches.nodes.get("", &node).is_none_or(|node| node.is_reporting()),
            None => self.caches.nodes.values().iter().all(|node| node.is_reporting()),
        }
    }

    /// Returns the node of the record's pod, if its SpiderEndpoint says so.
    fn recorded_node(&self, record: &ForeignRecord) -> Option<String> {
        let (namespace, name) = record.pod.split_once('/')?;
        let endpoint = self.caches.endpoints.get(namespace, name)?;
        let current = &endpoint.status.as_ref()?.current;
        (Some(&current.uid) == record.uid.as_ref() && !current.node.is_empty()).then(|| current.node.clone())
    }
}

/// Decides about `record`. `pod` is the pod that it names, if this pod exists. `expected` is true if a StatefulSet has a
/// pod of that name.
fn decide_import(record: &ForeignRecord, pod: Option<&Pod>, expected: bool) -> ImportDecision {
    let same = |pod: &&Pod| record.uid.is_none() || record.uid == pod.uid();
    let Some(pod) = pod.filter(same) else {
        // Spiderpool keeps the addresses of a StatefulSet's pod for the next pod of the same name.
        return match (&record.uid, &record.interface) {
            (Some(_), Some(_)) if expected => ImportDecision::Import(AddressAllocation {
                sticky: true,
                container: String::new(),
                ..record.placeholder()
            }),
            _ => ImportDecision::Stale,
        };
    };
    let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()) else {
        return ImportDecision::Undecided;
    };
    let reported = reported_interface(pod, record.slot.address);
    let interface = match (&record.interface, reported) {
        (Some(interface), Some(_)) => interface.clone(),
        (None, Some(reported)) => reported,
        // The record is about an earlier pod of that name. The new one gets its address, as in Whereabouts.
        (Some(interface), None) if record.uid.is_none() && !has_sandbox(pod) => interface.clone(),
        (_, None) => return ImportDecision::Undecided,
    };
    ImportDecision::Import(AddressAllocation {
        uid: pod.uid().unwrap_or_default(),
        node,
        interface,
        sticky: is_stateful(&pod.metadata),
        ..record.placeholder()
    })
}

/// Whether the pod has, or had, a network: the kubelet reports addresses of its sandbox.
fn has_sandbox(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let ips = status.and_then(|status| status.pod_ips.as_ref()).is_some_and(|ips| !ips.is_empty());
    let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or("Pending");
    ips || phase != "Pending" || pod.annotations().contains_key(NETWORK_STATUS)
}

/// Returns the interface that has the address according to the pod's network-status annotation or podIPs.
fn reported_interface(pod: &Pod, address: IpAddr) -> Option<String> {
    let is = |text: &str| text.parse() == Ok(address);
    let status: Vec<Value> = pod
        .annotations()
        .get(NETWORK_STATUS)
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let listed = status
        .iter()
        .find(|entry| entry["ips"].as_array().into_iter().flatten().filter_map(Value::as_str).any(is));
    let own = || {
        let ips = pod.status.as_ref()?.pod_ips.as_ref()?;
        ips.iter().any(|ip| is(&ip.ip)).then(|| "eth0".to_owned())
    };
    listed.and_then(|entry| entry["interface"].as_str().map(str::to_owned)).or_else(own)
}

#[cfg(test)]
mod tests;
