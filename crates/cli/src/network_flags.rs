//! Flags for network selection, which apply to all pods of a node.

use clap::{Args, ValueEnum, builder::BoolishValueParser};
use ferroband_daemon::TenantPolicy;
use ferroband_node::{NetworkAccessPolicy, PluginPolicy};

/// Network selection flags. Each can also be set by an environment variable, or in the configuration of a replaced
/// Multus.
#[derive(Args, Debug)]
#[command(next_help_heading = "Networks")]
pub struct NetworkFlags {
    /// Namespace for networks that the annotation v1.multus-cni.io/default-network and --default-networks name without
    /// a namespace.
    #[arg(
        long,
        env = "FERROBAND_NETWORK_NAMESPACE",
        value_name = "NAMESPACE",
        default_value = "kube-system"
    )]
    network_namespace: String,

    /// Restrict pods to networks of their own namespace and of --global-namespaces.
    #[arg(
        long, env = "FERROBAND_NAMESPACE_ISOLATION", value_parser = BoolishValueParser::new(),
        num_args = 0..=1, default_value = "false", default_missing_value = "true"
    )]
    namespace_isolation: bool,

    /// Namespaces whose networks every pod may use even with --namespace-isolation.
    #[arg(
        long,
        env = "FERROBAND_GLOBAL_NAMESPACES",
        value_name = "NAMESPACE",
        value_delimiter = ',',
        default_value = "default"
    )]
    global_namespaces: Vec<String>,

    /// Networks that every pod gets before those that it requests: [NAMESPACE/]NAME.
    #[arg(long, env = "FERROBAND_DEFAULT_NETWORKS", value_name = "NETWORK", value_delimiter = ',')]
    default_networks: Vec<String>,

    /// Namespaces whose pods do not get --default-networks.
    #[arg(
        long,
        env = "FERROBAND_SYSTEM_NAMESPACES",
        value_name = "NAMESPACE",
        value_delimiter = ',',
        default_value = "kube-system"
    )]
    system_namespaces: Vec<String>,

    /// Reject pods with the annotation v1.multus-cni.io/default-network.
    #[arg(
        long, env = "FERROBAND_FORBID_DEFAULT_NETWORK", value_parser = BoolishValueParser::new(),
        num_args = 0..=1, default_value = "false", default_missing_value = "true"
    )]
    forbid_default_network: bool,

    /// CNI plugins that networks outside of trusted namespaces may use: any that is installed on the node, or those of
    /// Ferroband and --listed-plugins.
    #[arg(long, env = "FERROBAND_NETWORK_PLUGINS", value_name = "MODE", value_enum, default_value_t)]
    network_plugins: NetworkPluginMode,

    /// Plugins of other projects for --network-plugins=listed, also those of `ipam.type`. Each is a program that runs
    /// as root on the node.
    #[arg(long, env = "FERROBAND_LISTED_PLUGINS", value_name = "TYPE", value_delimiter = ',')]
    listed_plugins: Vec<String>,
}

/// Values of --network-plugins.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum NetworkPluginMode {
    #[default]
    Any,
    Listed,
}

impl NetworkFlags {
    pub fn into_policy(self, tenants: TenantPolicy) -> NetworkAccessPolicy {
        let listed =
            self.listed_plugins.iter().map(|plugin| plugin.trim()).filter(|plugin| !plugin.is_empty());
        let plugins = match self.network_plugins {
            NetworkPluginMode::Any => PluginPolicy::Any,
            NetworkPluginMode::Listed => PluginPolicy::Listed(listed.map(str::to_owned).collect()),
        };
        let policy = NetworkAccessPolicy::new(
            self.network_namespace,
            self.namespace_isolation,
            self.global_namespaces,
            self.default_networks,
            self.system_namespaces,
        );
        NetworkAccessPolicy {
            forbids_default_network: self.forbid_default_network,
            plugins,
            tenants,
            ..policy
        }
    }
}
