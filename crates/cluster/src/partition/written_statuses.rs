//! Statuses of NodePartitions that were written and that the cache may not show yet.

use ferroband_api::ferroband::{NodePartitions, NodePartitionsStatus};
use kube::ResourceExt;
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// By node: the version that the cached object had when its status was written, and the status. Without it, a pass that
/// follows before all events of the last one have arrived would write the same statuses again.
#[derive(Default)]
pub struct WrittenStatuses(HashMap<String, (Option<String>, NodePartitionsStatus)>);

impl WrittenStatuses {
    pub fn insert(&mut self, object: &NodePartitions, status: NodePartitionsStatus) {
        self.0.insert(object.name_any(), (object.resource_version(), status));
    }

    /// Returns the status that the node has. A cached object of another version than at the write is newer.
    pub fn current(&self, object: &NodePartitions) -> Option<NodePartitionsStatus> {
        let written = self.0.get(&object.name_any());
        let written = written.filter(|(version, _)| *version == object.resource_version());
        written.map(|(_, status)| status.clone()).or_else(|| object.status.clone())
    }

    /// Forgets what the cached objects show.
    pub fn forget_cached(&mut self, objects: &[Arc<NodePartitions>]) {
        let is_pending = |object: &&Arc<NodePartitions>| {
            let written = self.0.get(&object.name_any());
            written.is_some_and(|(version, _)| *version == object.resource_version())
        };
        let pending: HashSet<String> =
            objects.iter().filter(is_pending).map(|object| object.name_any()).collect();
        self.0.retain(|node, _| pending.contains(node));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_status_counts_until_the_cache_shows_a_newer_object() {
        let status = |generation| NodePartitionsStatus {
            observed_generation: generation,
            ..NodePartitionsStatus::default()
        };
        let mut object = NodePartitions::new("n1", Default::default());
        (object.metadata.resource_version, object.status) = (Some("7".into()), Some(status(1)));
        let mut written = WrittenStatuses::default();
        assert_eq!(written.current(&object), Some(status(1)));
        written.insert(&object, status(2));
        assert_eq!(written.current(&object), Some(status(2)));
        written.forget_cached(&[Arc::new(object.clone())]);
        assert_eq!(written.current(&object), Some(status(2)));
        object.metadata.resource_version = Some("8".into());
        assert_eq!(written.current(&object), Some(status(1)));
        written.forget_cached(&[Arc::new(object.clone())]);
        assert!(written.0.is_empty());
    }
}
