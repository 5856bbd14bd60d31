//! RDMA devices that live in a pod's namespace.
//!
//! In exclusive mode a device is out of the host's sight as soon as it is a pod's; it is looked for in the namespaces of
//! which we keep a journal, which are those of all pods. They are open only while they are looked at.

use super::PodWithController;
use crate::{
    caches::{PodOwner, WatchCache},
    discover::sysfs::{read_text, sorted_names},
};
use ferroband_kernel::Root;
use serde_json::Value;
use std::path::PathBuf;

/// A pod's namespace, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsSandbox {
    /// Where the namespace is.
    pub netns: PathBuf,
    /// The pod.
    pub pod: PodWithController,
}

/// The sandboxes of which we keep a journal.
pub fn list_sandboxes(root: &Root, pods: &WatchCache<PodOwner>) -> Vec<MetricsSandbox> {
    let folder = root.state("journal");
    let journals = sorted_names(&folder).into_iter().filter(|name| name.ends_with(".json"));
    let sandbox = |name: String| {
        let journal: Value = serde_json::from_str(&read_text(&folder.join(name))?).ok()?;
        let netns = PathBuf::from(journal["netns"].as_str()?);
        let pod = |field: &str| journal["pod"][field].as_str().map(str::to_owned);
        let (namespace, name, uid) = (pod("namespace")?, pod("name")?, pod("uid"));
        let known = pods.find(|facts| Some(&facts.uid) == uid.as_ref());
        let controller = known.and_then(|(_, facts)| facts.controller.clone());
        Some(MetricsSandbox { netns, pod: PodWithController { namespace, name, controller } })
    };
    journals.filter_map(sandbox).collect()
}
