//! RDMA devices in the network namespaces of pods.
//!
//! In exclusive RDMA mode, the host cannot see a device that was moved to a pod. The journals of the pods'
//! attachments contain the path of each pod's network namespace. Each scrape opens and closes the namespaces.

use super::PodWithController;
use crate::{
    caches::{PodOwner, WatchCache},
    discover::sysfs::{read_text, sorted_names},
};
use ferroband_kernel::Root;
use serde_json::Value;
use std::path::PathBuf;

/// A pod and the path of its network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsSandbox {
    pub netns: PathBuf,
    pub pod: PodWithController,
}

/// Lists the pod sandboxes that have a journal of their attachments. Journals that cannot be parsed are
/// skipped.
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
