//! Whereabouts' flat file, which contains its node-wide configuration.

use ferroband_kernel::Root;
use ferroband_model::ConfigObject;
use serde_json::{Map, Value};
use std::fs;

/// Possible paths of the flat file. The first path that exists is used.
const FLAT_FILE_PATHS: [&str; 3] = [
    "etc/kubernetes/cni/net.d/whereabouts.d/whereabouts.conf",
    "etc/cni/net.d/whereabouts.d/whereabouts.conf",
    "host/etc/cni/net.d/whereabouts.d/whereabouts.conf",
];

/// Returns the content of the flat file under `root`, which provides defaults for `ipam`. A missing or broken file is
/// ignored, because networks do not need it.
pub fn read_flat_file(root: &Root) -> Map<String, Value> {
    let text = FLAT_FILE_PATHS.iter().find_map(|file| fs::read_to_string(root.path(file)).ok());
    let ConfigObject(flat) = text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    flat
}

#[cfg(test)]
mod tests {
    use super::*;

    // Case: ipam W34
    #[test]
    fn missing_or_broken_flat_file_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        assert!(read_flat_file(&root).is_empty());
        let file = root.path(FLAT_FILE_PATHS[1]);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "{").unwrap();
        assert!(read_flat_file(&root).is_empty());
        fs::write(&file, r#"{"range": "10.0.0.0/24"}"#).unwrap();
        assert_eq!(read_flat_file(&root)["range"], "10.0.0.0/24");
    }
}
