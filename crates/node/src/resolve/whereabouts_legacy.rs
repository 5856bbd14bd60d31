//! Configuration and allocations that Whereabouts left on the node and in the cluster.

use ferroband_address::whereabouts::RecordedAllocations;
use ferroband_kernel::Root;
use ferroband_model::ConfigObject;
use serde_json::{Map, Value};
use std::fs;

/// Possible paths of Whereabouts' flat file, which contains its node-wide configuration. The first path that
/// exists is used.
const FLAT_FILE_PATHS: [&str; 3] = [
    "etc/kubernetes/cni/net.d/whereabouts.d/whereabouts.conf",
    "etc/cni/net.d/whereabouts.d/whereabouts.conf",
    "host/etc/cni/net.d/whereabouts.d/whereabouts.conf",
];

/// Existing Whereabouts state that affects how an `ipam` object is read.
#[derive(Clone, Debug, Default)]
pub struct WhereaboutsLegacy {
    /// Content of Whereabouts' flat file, which provides defaults for `ipam`; empty if there is no flat file.
    pub flat_file: Map<String, Value>,
    /// Addresses that Whereabouts itself has assigned, which must not be assigned to other pods.
    pub recorded: RecordedAllocations,
}

impl WhereaboutsLegacy {
    /// Reads Whereabouts' flat file under `root`. A missing or broken file is ignored, because networks do
    /// not need it.
    pub fn read(root: &Root, recorded: RecordedAllocations) -> Self {
        let text = FLAT_FILE_PATHS.iter().find_map(|file| fs::read_to_string(root.path(file)).ok());
        let flat = text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        let ConfigObject(flat) = flat;
        Self { flat_file: flat, recorded }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Case: ipam W34
    #[test]
    fn missing_or_broken_flat_file_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let read = || WhereaboutsLegacy::read(&root, RecordedAllocations::default());
        assert!(read().flat_file.is_empty());
        let file = root.path(FLAT_FILE_PATHS[1]);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "{").unwrap();
        assert!(read().flat_file.is_empty());
        fs::write(&file, r#"{"range": "10.0.0.0/24"}"#).unwrap();
        assert_eq!(read().flat_file["range"], "10.0.0.0/24");
    }
}
