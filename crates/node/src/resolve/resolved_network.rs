//! Resolves a network of a pod to its CNI configuration on this node.

use super::default_network::{CONFLIST, DefaultNetwork, is_meta_plugin, list_files, read_network};
use ferroband_api::{
    annotation::NetworkSelection,
    cncf::{NetworkAttachmentDefinition, NetworkConfig},
};
use ferroband_model::{Fault, FaultCode};
use std::path::{Path, PathBuf};

/// A network that a pod selects, with the CNI configuration from its definition or from a file.
#[derive(Clone, Debug)]
pub struct ResolvedNetwork {
    pub selection: NetworkSelection,
    pub config: NetworkConfig,
    /// Name of the extended resource whose devices the network uses; `None` if it needs no device.
    pub resource: Option<String>,
}

/// The network of the interface `CNI_IFNAME`.
#[derive(Clone, Debug)]
pub enum DefaultNetworkChoice {
    /// The cluster's default network, which Ferroband wraps.
    Wrapped(DefaultNetwork),
    /// A network from a NetworkAttachmentDefinition, which replaces the cluster's default network.
    Resolved(Box<ResolvedNetwork>),
}

impl DefaultNetworkChoice {
    /// Returns the network if it comes from a NetworkAttachmentDefinition.
    pub fn resolved(&self) -> Option<&ResolvedNetwork> {
        match self {
            Self::Resolved(network) => Some(network),
            Self::Wrapped(_) => None,
        }
    }
}

impl ResolvedNetwork {
    /// Reads the CNI configuration of the network from `definition`. If the definition contains none, reads
    /// it from a file in `folders`.
    pub fn from_definition(
        selection: NetworkSelection,
        definition: &NetworkAttachmentDefinition,
        folders: &[PathBuf],
    ) -> Result<Self, Fault> {
        let config = match definition.config() {
            Some(_) => definition.network_config().map_err(|e| e.fault())?,
            None => Self::find_in_files(&selection, folders)?,
        };
        let resource = definition.resource_name().map(str::to_owned);
        Ok(Self { selection, config, resource })
    }

    fn find_in_files(selection: &NetworkSelection, folders: &[PathBuf]) -> Result<NetworkConfig, Fault> {
        let broken = |path: &Path, cause: String| {
            let what = format!("network {}", selection.display_name());
            let cause =
                format!("cannot read {}, which may be its CNI configuration: {cause}", path.display());
            Fault::new(FaultCode::InvalidConfig, what, cause, "repair or remove that file")
        };
        for folder in folders {
            let found = list_files(folder, &["conf", "conflist", "json"])
                .map_err(|e| broken(folder, e.to_string()))?;
            for file in found.iter().filter(|file| file.file_name().is_some_and(|name| name != CONFLIST)) {
                // A broken file may contain the network that is searched for, so it is an error.
                let network = read_network(file).map_err(|cause| broken(file, cause))?;
                if network.name == selection.name && !is_meta_plugin(&network) {
                    return Ok(network);
                }
            }
        }
        let searched: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
        Err(Fault::new(
            FaultCode::InvalidConfig,
            format!("network {}", selection.display_name()),
            format!(
                "its NetworkAttachmentDefinition has no spec.config, and no CNI file in {} has its name",
                searched.join(", ")
            ),
            "set spec.config of the NetworkAttachmentDefinition, or install the file on every node",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::fs;

    fn definition(spec: Value) -> NetworkAttachmentDefinition {
        let object = json!({
            "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
            "metadata": {"name": "x", "namespace": "default"}, "spec": spec,
        });
        serde_json::from_value(object).unwrap()
    }

    // Case: cni 82
    #[test]
    fn name_is_injected_and_an_empty_spec_is_read_from_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let folders = [dir.path().join("multus"), dir.path().join("net.d")];
        folders.iter().for_each(|folder| fs::create_dir(folder).unwrap());
        let selection = || NetworkSelection::parse_networks("x", "default").unwrap().remove(0);
        let resolve =
            |spec: Value| ResolvedNetwork::from_definition(selection(), &definition(spec), &folders);
        for config in [json!({"type": "a"}), json!({"type": "a", "name": ""})] {
            let config = resolve(json!({"config": config.to_string()})).unwrap().config;
            assert_eq!((config.name.as_str(), &config.plugins[0]["name"]), ("x", &json!("x")));
        }
        let fault = resolve(json!({})).unwrap_err();
        assert!(fault.code == FaultCode::InvalidConfig && fault.what.contains("default/x"), "{fault}");

        let put = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        put("net.d/00-ferroband.conflist", r#"{"name":"x","plugins":[{"type":"ferroband"}]}"#);
        put("net.d/10-x.conflist", r#"{"name":"x","plugins":[{"type":"third"}]}"#);
        put("multus/10-other.conf", r#"{"name":"other","type":"first"}"#);
        assert_eq!(resolve(json!({})).unwrap().config.plugins[0]["type"], "third");
        put("multus/20-x.json", r#"{"name":"x","type":"second"}"#);
        assert_eq!(resolve(json!({"config": " "})).unwrap().config.plugins[0]["type"], "second");
        put("multus/15-broken.conf", "{");
        assert!(resolve(json!({})).unwrap_err().cause.contains("15-broken.conf"));
        put("multus/15-broken.conf", r#"{"type":"nameless"}"#);
        assert!(resolve(json!({})).is_err());
    }
}
