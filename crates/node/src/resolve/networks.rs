//! Resolves a pod's networks to NetworkAttachmentDefinitions and their CNI configurations on this node.

use super::{
    NetworkAccessPolicy, PodResolver, RequestedNetworks,
    default_network::{
        CONFLIST, DefaultNetwork, find_default_network, find_network_by_name, is_meta_plugin, list_files,
        read_default_network, read_network,
    },
};
use ferroband_api::{
    annotation::NetworkSelection,
    cncf::{NetworkAttachmentDefinition, NetworkConfig},
};
use ferroband_config::{WrapperConfig, named_devices, plugin_name};
use ferroband_model::{Fault, FaultCode};
use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::Value;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

/// Number of definitions of a pod that are read from the API server at the same time, if they are not in the cache yet.
const MAX_PARALLEL_LOOKUPS: usize = 8;
/// Maximum size of the CNI configuration in a definition. A plan contains the configurations of all networks of a pod.
const MAX_CONFIG_BYTES: usize = 128 << 10;

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

impl PodResolver {
    /// Finds the definitions of all networks that the pod gets and reads their CNI configurations. A missing
    /// definition is a fault.
    pub(super) async fn resolve_networks(
        &self,
        requested: RequestedNetworks,
        policy: &NetworkAccessPolicy,
        config: &WrapperConfig,
    ) -> Result<(DefaultNetworkChoice, Vec<ResolvedNetwork>), Fault> {
        let RequestedNetworks { default, cluster_wide, networks } = requested;
        let mut networks: Vec<_> = cluster_wide.into_iter().chain(networks).collect();
        let has_default = default.is_some();
        networks.extend(default);
        let mut resolved = self.resolve_selections(networks, policy).await?;
        let default = if has_default { resolved.pop() } else { None };
        let default = match (default, config.cluster_network.as_deref()) {
            (Some(network), _) => DefaultNetworkChoice::Resolved(Box::new(network)),
            (None, Some(name)) if !name.is_empty() => self.find_cluster_network(name, policy).await?,
            (None, _) => DefaultNetworkChoice::Wrapped(self.find_wrapped_network(config)?),
        };
        Ok((default, resolved))
    }

    /// Resolves selections in their order. Each network is looked up once, however often a pod selects it.
    async fn resolve_selections(
        &self,
        selections: Vec<NetworkSelection>,
        policy: &NetworkAccessPolicy,
    ) -> Result<Vec<ResolvedNetwork>, Fault> {
        let mut positions = HashMap::new();
        let mut unique = Vec::new();
        for selection in &selections {
            positions.entry((&selection.namespace, &selection.name)).or_insert_with(|| {
                unique.push(selection);
                unique.len() - 1
            });
        }
        let lookups = unique.into_iter().map(|selection| async move {
            let network = self.resolve_network(selection, policy).await?;
            network.ok_or_else(|| no_network_fault(selection))
        });
        let found: Vec<_> = stream::iter(lookups).buffered(MAX_PARALLEL_LOOKUPS).try_collect().await?;
        let of_selection = |selection: &NetworkSelection| {
            let position = positions.get(&(&selection.namespace, &selection.name))?;
            Some(ResolvedNetwork { selection: selection.clone(), ..found.get(*position)?.clone() })
        };
        Ok(selections.iter().filter_map(of_selection).collect())
    }

    /// Finds the definition of a network and reads its CNI configuration. Returns `None` if there is no definition.
    async fn resolve_network(
        &self,
        selection: &NetworkSelection,
        policy: &NetworkAccessPolicy,
    ) -> Result<Option<ResolvedNetwork>, Fault> {
        let definition = self.networks.find(&selection.namespace, &selection.name).await;
        let Some(definition) = definition.map_err(|e| e.fault())? else { return Ok(None) };
        let folders = [self.multus_conf_d.clone(), self.net_d.clone()];
        let mut network = ResolvedNetwork::from_definition(selection.clone(), &definition, &folders)?;
        policy.check_plugins(selection, &network.config)?;
        let plugins = network.config.plugins.iter_mut();
        plugins
            .filter(|plugin| plugin_name(plugin) == "coordinator")
            .for_each(|plugin| self.coordinator_context.fill(plugin));
        Ok(Some(network))
    }

    /// Finds the default network that the Multus setting `clusterNetwork` names. A value with a slash is the
    /// path of a file or directory. Any other value is the name of a NetworkAttachmentDefinition or, if there
    /// is none, the name of a network in a CNI configuration file.
    async fn find_cluster_network(
        &self,
        name: &str,
        policy: &NetworkAccessPolicy,
    ) -> Result<DefaultNetworkChoice, Fault> {
        if name.contains('/') {
            return Ok(DefaultNetworkChoice::Wrapped(read_default_network(&self.root.path(name))?));
        }
        let selections = NetworkSelection::parse_networks(name, &policy.namespace).map_err(|e| e.fault())?;
        let network = match selections.first() {
            Some(selection) => self.resolve_network(selection, policy).await?,
            None => None,
        };
        Ok(match network {
            Some(network) => DefaultNetworkChoice::Resolved(Box::new(network)),
            None => DefaultNetworkChoice::Wrapped(find_network_by_name(&self.multus_conf_d, name)?),
        })
    }

    /// Returns the cluster's default network from its file or, if that fails, from the copy in the CNI
    /// configuration of the call.
    fn find_wrapped_network(&self, config: &WrapperConfig) -> Result<DefaultNetwork, Fault> {
        find_default_network(&self.net_d).or_else(|fault| {
            let delegate = config.delegates.first().cloned().ok_or_else(|| fault.clone())?;
            let delegate = Value::Object(delegate).to_string();
            let network = NetworkConfig::parse("default network", &delegate, "default");
            Ok(DefaultNetwork { file: self.net_d.clone(), network: network.map_err(|_| fault)? })
        })
    }
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
            Some(text) if text.len() > MAX_CONFIG_BYTES => {
                return Err(config_too_large(&selection, text.len()));
            }
            Some(_) => definition.network_config().map_err(|e| e.fault())?,
            None => Self::find_in_files(&selection, folders)?,
        };
        let resource = definition.resource_name().map(str::to_owned);
        Ok(Self { selection, config, resource })
    }

    /// Whether the network may use a device: one of its resource, or one that the definition or the annotation names.
    /// `rdma` uses the device of the interface before it, if it names none.
    pub(super) fn uses_devices(&self) -> bool {
        let is_device_plugin =
            |plugin| named_devices(plugin).next().is_some() || plugin_name(plugin) == "rdma";
        self.resource.is_some()
            || self.selection.device_id.is_some()
            || self.config.plugins.iter().any(is_device_plugin)
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

fn config_too_large(selection: &NetworkSelection, bytes: usize) -> Fault {
    Fault::new(
        FaultCode::InvalidConfig,
        format!("network {}", selection.display_name()),
        format!(
            "spec.config of its NetworkAttachmentDefinition has {bytes} bytes, but at most {MAX_CONFIG_BYTES} are allowed"
        ),
        "shorten the CNI configuration",
    )
}

fn no_network_fault(selection: &NetworkSelection) -> Fault {
    let NetworkSelection { namespace, name, .. } = selection;
    Fault::new(
        FaultCode::NoNetworkFound,
        format!("network {namespace}/{name}"),
        format!("cannot find a network-attachment-definition ({name}) in namespace ({namespace})"),
        "create this definition, or correct the annotation k8s.v1.cni.cncf.io/networks; the pod is retried",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
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

    #[test]
    fn a_configuration_is_limited_in_size_and_depth() {
        let selection = || NetworkSelection::parse_networks("x", "default").unwrap().remove(0);
        let resolve = |config: String| {
            ResolvedNetwork::from_definition(selection(), &definition(json!({"config": config})), &[])
        };
        let padded = |blanks: usize| format!(r#"{{"type":"a"{}}}"#, " ".repeat(blanks));
        assert!(resolve(padded(1000)).is_ok());
        let fault = resolve(padded(MAX_CONFIG_BYTES)).unwrap_err();
        assert!(fault.what.contains("default/x") && fault.cause.contains("bytes"), "{fault}");
        let nested = |open: &str, close: &str| {
            format!(r#"{{"type":"a","x":{}1{}}}"#, open.repeat(30_000), close.repeat(30_000))
        };
        assert!(resolve(nested("[", "]")).is_err());
        assert!(
            resolve(format!(r#"{{"type":"a","x":{}1{}}}"#, r#"{"y":"#.repeat(10_000), "}".repeat(10_000)))
                .is_err()
        );
    }
}
