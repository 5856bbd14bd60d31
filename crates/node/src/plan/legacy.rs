//! What Whereabouts left on the node and in the cluster: its settings file, its records.

use ferroband_address::Space;
use ferroband_kernel::Root;
use serde_json::{Map, Value};
use std::{fs, net::IpAddr};

/// Where its settings file is looked for; the first that exists counts.
const FILES: [&str; 3] = [
    "etc/kubernetes/cni/net.d/whereabouts.d/whereabouts.conf",
    "etc/cni/net.d/whereabouts.d/whereabouts.conf",
    "host/etc/cni/net.d/whereabouts.d/whereabouts.conf",
];

/// What an `ipam` object of Whereabouts is read with.
#[derive(Clone, Debug, Default)]
pub struct Legacy {
    /// What the settings file says for networks that do not.
    pub flat: Map<String, Value>,
    /// Addresses that Whereabouts itself has assigned.
    pub taken: Vec<(Space, IpAddr)>,
}

impl Legacy {
    /// As it is now. A settings file that is missing or broken says nothing: networks need none.
    pub fn read(root: &Root, taken: Vec<(Space, IpAddr)>) -> Self {
        let text = FILES.iter().find_map(|file| fs::read_to_string(root.path(file)).ok());
        let flat = text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        Self { flat, taken }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w34_no_file_and_a_broken_file_say_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        assert!(Legacy::read(&root, Vec::new()).flat.is_empty());
        let file = root.path(FILES[1]);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "{").unwrap();
        assert!(Legacy::read(&root, Vec::new()).flat.is_empty());
        fs::write(&file, r#"{"range": "10.0.0.0/24"}"#).unwrap();
        assert_eq!(Legacy::read(&root, Vec::new()).flat["range"], "10.0.0.0/24");
    }
}
