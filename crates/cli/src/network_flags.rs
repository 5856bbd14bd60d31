//! What the administrator decides about networks, for all pods of a node.

use clap::{Args, builder::BoolishValueParser};
use ferroband_node::NetworkAccessPolicy;

/// Decisions about networks. Each can also be made by an environment variable, and the configuration of a Multus that
/// was replaced is heard as well.
#[derive(Args, Debug)]
#[command(next_help_heading = "Networks")]
pub struct NetworkFlags {
    /// Where networks are looked for that the annotation v1.multus-cni.io/default-network and --default-networks name
    /// without a namespace.
    #[arg(
        long,
        env = "FERROBAND_NETWORK_NAMESPACE",
        value_name = "NAMESPACE",
        default_value = "kube-system"
    )]
    network_namespace: String,

    /// Let pods use networks of their own namespace and of --global-namespaces only.
    #[arg(
        long, env = "FERROBAND_NAMESPACE_ISOLATION", value_parser = BoolishValueParser::new(),
        num_args = 0..=1, default_value = "false", default_missing_value = "true"
    )]
    namespace_isolation: bool,

    /// With --namespace-isolation: namespaces whose networks every pod may use.
    #[arg(
        long,
        env = "FERROBAND_GLOBAL_NAMESPACES",
        value_name = "NAMESPACE",
        value_delimiter = ',',
        default_value = "default"
    )]
    global_namespaces: Vec<String>,

    /// Networks that every pod gets before those that it asks for: [NAMESPACE/]NAME.
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
}

impl NetworkFlags {
    /// As the daemon takes them.
    pub fn into_policy(self) -> NetworkAccessPolicy {
        NetworkAccessPolicy::new(
            self.network_namespace,
            self.namespace_isolation,
            self.global_namespaces,
            self.default_networks,
            self.system_namespaces,
        )
    }
}
