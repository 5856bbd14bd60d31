//! Flags about tenants that both daemons have.

use clap::{Args, builder::PossibleValuesParser, builder::TypedValueParser};
use ferroband_daemon::{TenantPolicy, UnlistedPartitions};

/// What tenants may do. Set them equally for the node daemons and the cluster daemon; the Helm chart does.
#[derive(Args, Debug)]
#[command(next_help_heading = "Tenants")]
pub struct TenantFlags {
    /// Namespaces in which only administrators create objects, besides the one that Ferroband is installed in. Their
    /// networks and network groups are available to all pods, and their policies apply to the cluster.
    #[arg(
        long,
        env = "FERROBAND_TRUSTED_NAMESPACES",
        value_name = "NAMESPACE",
        value_delimiter = ',',
        default_value = "kube-system,spiderpool"
    )]
    trusted_namespaces: Vec<String>,

    /// What happens to pods that use a P_Key that no Partition object lists. Networks in trusted namespaces are exempt
    /// from `refuse`.
    #[arg(
        long,
        env = "FERROBAND_UNLISTED_PARTITIONS",
        value_name = "MODE",
        default_value_t,
        value_parser = PossibleValuesParser::new(UnlistedPartitions::ALL.map(UnlistedPartitions::as_str))
            .map(|name| UnlistedPartitions::from_name(&name).unwrap_or_default())
    )]
    unlisted_partitions: UnlistedPartitions,

    /// Maximum number of networks that a pod may request.
    #[arg(
        long,
        env = "FERROBAND_MAX_NETWORKS_PER_POD",
        value_name = "NUMBER",
        default_value_t = TenantPolicy::MAX_NETWORKS_PER_POD
    )]
    max_networks_per_pod: usize,
}

impl TenantFlags {
    /// Returns the policy of a daemon that is installed in the namespace `own`.
    pub fn into_policy(self, own: &str) -> TenantPolicy {
        TenantPolicy {
            max_networks_per_pod: self.max_networks_per_pod,
            unlisted_partitions: self.unlisted_partitions,
            ..TenantPolicy::new(own, self.trusted_namespaces)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct TestArguments {
        #[command(flatten)]
        flags: TenantFlags,
    }

    fn policy(arguments: &[&str]) -> TenantPolicy {
        let arguments = [&["x"], arguments].concat();
        TestArguments::parse_from(arguments).flags.into_policy("ferroband-system")
    }

    #[test]
    fn the_default_flags_are_the_default_policy() {
        assert_eq!(policy(&[]), TenantPolicy::default());
    }

    #[test]
    fn flags_change_the_policy() {
        let changed = policy(&[
            "--trusted-namespaces=kube-system",
            "--unlisted-partitions=refuse",
            "--max-networks-per-pod=4",
        ]);
        assert_eq!(changed.trusted_namespaces, ["ferroband-system", "kube-system"]);
        assert_eq!(
            (changed.unlisted_partitions, changed.max_networks_per_pod),
            (UnlistedPartitions::Refuse, 4)
        );
        assert!(TestArguments::try_parse_from(["x", "--unlisted-partitions=deny"]).is_err());
    }
}
