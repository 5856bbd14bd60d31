//! Generates `cni.md`, the reference of the CNI configuration options.

use super::{markdown_table, page_header};

/// Each row is an option of a plugin's CNI configuration, its type and its meaning.
type OptionRows = &'static [(&'static str, &'static str, &'static str)];

const IPOIB: OptionRows = &[
    ("master", "string", "IPoIB interface of the node that is the parent of the pod's interface. Required."),
    ("mtu", "number", "MTU; defaults to the parent's."),
    (
        "ipam",
        "object",
        "IPAM: `whereabouts` or `spiderpool` (built in), or any IPAM plugin on the node except `dhcp`.",
    ),
    ("dns", "object", "Copied to the result."),
];

const IB_SRIOV: OptionRows = &[
    (
        "deviceID",
        "string",
        "PCI address of the function; set by the meta plugin from the pod's resource. `pciBusID` is an alias.",
    ),
    ("link_state", "string", "`auto`, `enable` or `disable`; unchanged by default."),
    (
        "rdmaIsolation",
        "bool",
        "Whether the function's RDMA device moves into the pod; defaults to the node's RDMA netns mode.",
    ),
    (
        "ibKubernetesEnabled",
        "bool",
        "Reject pods that ib-kubernetes has not marked (`mellanox.infiniband.app: configured` in `cni-args`).",
    ),
    ("vfioPciMode", "bool", "The function is bound to vfio-pci, so there is no interface to move."),
    ("mtu", "number", "MTU; unchanged by default."),
    ("ipam", "object", "IPAM, as for ipoib."),
    (
        "capabilities.infinibandGUID",
        "bool",
        "The pod's annotation may request a GUID; `cni-args.guid` is equivalent.",
    ),
];

const RDMA: OptionRows = &[(
    "args.cni",
    "object",
    "No options of its own. It moves the RDMA device of the previous plugin's interface into the pod.",
)];

const COORDINATOR: OptionRows = &[
    (
        "mode",
        "string",
        "`auto` (the default), `underlay` (the pod's first interface is InfiniBand), `overlay` or `disabled`.",
    ),
    (
        "overlayPodCIDR, serviceCIDR, hijackCIDR",
        "list of string",
        "Subnets that the pod reaches through its node.",
    ),
    ("hostRuleTable", "number", "Routing table of the node for routes to pods; 500 by default."),
    ("podDefaultRouteNIC", "string", "Interface that keeps the pod's default route."),
    (
        "podMACPrefix",
        "string",
        "First two bytes of the MAC address, `xx:yy`; the others are those of the IP address. Ethernet only, not ipvlan.",
    ),
    ("podRPFilter", "number", "`rp_filter` in the pod: 0, 1 or 2; 0 by default."),
    ("tunePodRoutes", "bool", "Whether additional interfaces get their own routing tables; true by default."),
    ("vethLinkAddress", "string", "Address of the pod's end of the veth pair to its node."),
    ("vethMTU", "number", "MTU of the veth pair; 1500 by default."),
    ("policyRoutes", "list of object", "Additional routes in the interface's table, `dst` and `gw`."),
];

const WHEREABOUTS: OptionRows = &[
    ("range", "string", "Subnet, or `A-B/prefix`; host bits are ignored."),
    ("range_start, range_end", "string", "First and last address of the range."),
    ("exclude", "list of string", "Addresses, ranges or subnets that are never assigned."),
    ("ipRanges", "list of object", "Several ranges; an interface gets one address from each."),
    (
        "network_name",
        "string",
        "IP space in which addresses are unique; networks with the same range and different names do not conflict.",
    ),
    (
        "enable_overlapping_ranges",
        "bool",
        "Whether an address is unique across all ranges (the default) or only in its own range.",
    ),
    ("gateway", "string", "Copied to the result."),
    ("routes", "list of object", "`dst` and `gw`, copied to the result."),
    (
        "addresses",
        "list of object",
        "Static addresses that every pod gets in addition; they are not tracked.",
    ),
    ("dns", "object", "Copied to the result."),
];

const SPIDERPOOL: OptionRows = &[
    (
        "default_ipv4_ippool",
        "list of string",
        "IPv4 pools in order of preference, for pods and namespaces that name none themselves.",
    ),
    ("default_ipv6_ippool", "list of string", "IPv6 pools in order of preference."),
    ("clean_gateway", "bool", "The interface gets no default route."),
];

const META: OptionRows = &[
    ("delegates", "list of object", "Default network; written by the node daemon."),
    (
        "multusNamespace",
        "string",
        "Namespace for networks that the administrator names without a namespace; kube-system by default.",
    ),
    (
        "namespaceIsolation",
        "bool",
        "Restricts pods to networks of their own namespace and of `globalNamespaces`.",
    ),
    (
        "globalNamespaces",
        "string",
        "Namespaces whose networks every pod may use, comma-separated; `default` by default.",
    ),
    ("defaultNetworks", "list of string", "Networks that every pod gets."),
    ("systemNamespaces", "list of string", "Namespaces whose pods do not get `defaultNetworks`."),
    ("readinessindicatorfile", "string", "The default network is ready only if this file exists."),
];

const VARIABLES: OptionRows = &[
    ("FERROBAND_NETWORK_NAMESPACE", "string", "Same as `multusNamespace`."),
    ("FERROBAND_NAMESPACE_ISOLATION", "bool", "Same as `namespaceIsolation`."),
    ("FERROBAND_GLOBAL_NAMESPACES", "string", "Same as `globalNamespaces`."),
    ("FERROBAND_DEFAULT_NETWORKS", "string", "Same as `defaultNetworks`, comma-separated."),
    ("FERROBAND_SYSTEM_NAMESPACES", "string", "Same as `systemNamespaces`, comma-separated."),
];

pub fn page() -> String {
    let mut text = page_header(
        "CNI options",
        "Options of Ferroband's plugin types in `spec.config` of a NetworkAttachmentDefinition, in addition to `type`, \
         `name` and `cniVersion`\n(0.1.0 to 1.1.0). Keys are case-insensitive and `null` counts as absent, \
         as in the Go plugins. Every other\ntype is executed from the node's CNI directory, alone or \
         in a chain (`plugins`).",
    );
    for (title, about, options) in [
        ("ipoib", "An IPoIB interface in the pod.", IPOIB),
        ("ib-sriov", "A virtual function of an InfiniBand adapter in the pod.", IB_SRIOV),
        ("rdma", "Chained after another plugin, on nodes with RDMA netns mode exclusive.", RDMA),
        (
            "coordinator",
            "Chained after another plugin: routes to the node, the services and other pods.",
            COORDINATOR,
        ),
        ("ipam: whereabouts", "Addresses that are unique in the cluster.", WHEREABOUTS),
        ("ipam: spiderpool", "Addresses from SpiderIPPools.", SPIDERPOOL),
        ("ferroband, multus", "The meta plugin, which wraps the default network.", META),
        ("Environment of the node daemon", "The same settings for all nodes.", VARIABLES),
    ] {
        text.push_str(&format!("\n## {title}\n\n{about}\n\n"));
        let rows =
            options.iter().map(|(name, kind, says)| [format!("`{name}`"), (*kind).into(), (*says).into()]);
        text.push_str(&markdown_table(["Option", "Type", "Meaning"], rows));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::page;
    use ferroband_attach::PluginType;

    #[test]
    fn every_plugin_type_has_a_section() {
        for role in PluginType::ALL {
            let found = page().lines().any(|line| line.starts_with("## ") && line.contains(role.as_str()));
            assert!(found, "{role}");
        }
    }
}
