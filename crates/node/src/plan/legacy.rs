//! What Whereabouts left on the node and in the cluster: its settings file, its records.

use ferroband_address::IpSpace;
use ferroband_kernel::Root;
use serde_json::{Map, Value};
use std::{fs, net::IpAddr};

/// Where its settings file is looked for; the first that exists counts.
const FLAT_FILE_PATHS: [&str; 3] = [
    "etc/kubernetes/cni/net.d/whereabouts.d/whereabouts.conf",
    "etc/cni/net.d/whereabouts.d/whereabouts.conf",
    "host/etc/cni/net.d/whereabouts.d/whereabouts.conf",
];

/// What an `ipam` object of Whereabouts is read with.
#[derive(Clone, Debug, Default)]
pub struct WhereaboutsLegacy {
    /// What the settings file says for networks that do not.
    pub flat_file: Map<String, Value>,
    /// Addresses that Whereabouts itself has assigned.
    pub taken_addresses: Vec<(IpSpace, IpAddr)>,
}

impl WhereaboutsLegacy {
    /// As it is now. A settings file that is missing or broken says nothing: networks need none.
    pub fn read(root: &Root, taken: Vec<(IpSpace, IpAddr)>) -> Self {
        let text = FLAT_FILE_PATHS.iter().find_map(|file| fs::read_to_string(root.path(file)).ok());
        let flat = text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        Self { flat_file: flat, taken_addresses: taken }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w34_no_file_and_a_broken_file_say_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        assert!(WhereaboutsLegacy::read(&root, Vec::new()).flat_file.is_empty());
        let file = root.path(FLAT_FILE_PATHS[1]);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "{").unwrap();
        assert!(WhereaboutsLegacy::read(&root, Vec::new()).flat_file.is_empty());
        fs::write(&file, r#"{"range": "10.0.0.0/24"}"#).unwrap();
        assert_eq!(WhereaboutsLegacy::read(&root, Vec::new()).flat_file["range"], "10.0.0.0/24");
    }
}
