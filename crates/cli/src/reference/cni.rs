//! What the network configurations of our CNI types may say.

use super::{markdown_table, page_header};

/// Option, its type, and what it says.
type OptionRows = &'static [(&'static str, &'static str, &'static str)];

const IPOIB: OptionRows = &[
    (
        "master",
        "string",
        "The IPoIB interface of the node that the pod's interface is a child of. Must be there.",
    ),
    ("mtu", "number", "The MTU; the parent's unless given."),
    (
        "ipam",
        "object",
        "Where addresses come from: `whereabouts` or `spiderpool` (ours), or any IPAM plugin on the node but `dhcp`.",
    ),
    ("dns", "object", "Handed on into the result."),
];

const IB_SRIOV: OptionRows = &[
    (
        "deviceID",
        "string",
        "The function's PCI address; handed in from the pod's resource by the meta plugin. `pciBusID` is the same.",
    ),
    ("link_state", "string", "`auto`, `enable` or `disable`; as it is unless given."),
    (
        "rdmaIsolation",
        "bool",
        "Whether the function's RDMA device goes into the pod with it; as the node's RDMA mode is unless given.",
    ),
    (
        "ibKubernetesEnabled",
        "bool",
        "Refuse a pod that no fabric manager has marked (`mellanox.infiniband.app: configured` in `cni-args`).",
    ),
    ("vfioPciMode", "bool", "The function has the driver vfio-pci: there is no interface to move."),
    ("mtu", "number", "The MTU; as it is unless given."),
    ("ipam", "object", "Where addresses come from, as for ipoib."),
    (
        "capabilities.infinibandGUID",
        "bool",
        "The pod's annotation may ask for a GUID; `cni-args.guid` does the same.",
    ),
];

const RDMA: OptionRows = &[(
    "args.cni",
    "object",
    "Nothing of its own: it moves the RDMA device of the chain's earlier interface into the pod.",
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
    ("hostRuleTable", "number", "The node's routing table of the pods' routes; 500 unless given."),
    ("podDefaultRouteNIC", "string", "The interface that keeps the pod's default route."),
    ("podRPFilter", "number", "The reverse path filter in the pod: 0, 1 or 2; 0 unless given."),
    (
        "tunePodRoutes",
        "bool",
        "Whether further interfaces get routing tables of their own; true unless given.",
    ),
    ("vethLinkAddress", "string", "An address for the pod's end of the wire to its node."),
    ("vethMTU", "number", "The MTU of that wire; 1500 unless given."),
    ("policyRoutes", "list of object", "Further routes of the interface's table, `dst` and `gw`."),
];

const WHEREABOUTS: OptionRows = &[
    ("range", "string", "The subnet, or `A-B/prefix`; host bits are ignored."),
    ("range_start, range_end", "string", "The first and the last address in it."),
    ("exclude", "list of string", "Addresses, ranges or subnets that are not given out."),
    ("ipRanges", "list of object", "Several of the above; an interface gets one address of each."),
    (
        "network_name",
        "string",
        "The space in which addresses are unique; networks with the same range and different names do not collide.",
    ),
    (
        "enable_overlapping_ranges",
        "bool",
        "Whether an address is unique over all ranges (the default) or in its own only.",
    ),
    ("gateway", "string", "Handed on into the result."),
    ("routes", "list of object", "`dst` and `gw`, handed on into the result."),
    (
        "addresses",
        "list of object",
        "Fixed addresses that every pod gets besides; nobody keeps count of them.",
    ),
    ("dns", "object", "Handed on into the result."),
];

const SPIDERPOOL: OptionRows = &[
    (
        "default_ipv4_ippool",
        "list of string",
        "Pools of IPv4 addresses, the first preferred; for pods and namespaces that name none themselves.",
    ),
    ("default_ipv6_ippool", "list of string", "The same for IPv6."),
    ("clean_gateway", "bool", "The interface gets no default route."),
];

const META: OptionRows = &[
    ("delegates", "list of object", "The default network; written by the node daemon."),
    (
        "multusNamespace",
        "string",
        "Where networks that are named without a namespace by the administrator are looked for; kube-system unless given.",
    ),
    (
        "namespaceIsolation",
        "bool",
        "Pods may use networks of their own namespace and of `globalNamespaces` only.",
    ),
    (
        "globalNamespaces",
        "string",
        "Namespaces whose networks every pod may use, separated by commas; `default` unless given.",
    ),
    ("defaultNetworks", "list of string", "Networks that every pod gets."),
    ("systemNamespaces", "list of string", "Namespaces whose pods do not get `defaultNetworks`."),
    ("readinessindicatorfile", "string", "A file without which the default network is not ready."),
];

const VARIABLES: OptionRows = &[
    ("FERROBAND_NETWORK_NAMESPACE", "string", "As `multusNamespace`."),
    ("FERROBAND_NAMESPACE_ISOLATION", "bool", "As `namespaceIsolation`."),
    ("FERROBAND_GLOBAL_NAMESPACES", "string", "As `globalNamespaces`."),
    ("FERROBAND_DEFAULT_NETWORKS", "string", "As `defaultNetworks`, separated by commas."),
    ("FERROBAND_SYSTEM_NAMESPACES", "string", "As `systemNamespaces`, separated by commas."),
];

/// The page.
pub fn page() -> String {
    let mut text = page_header(
        "CNI options",
        "What a NetworkAttachmentDefinition's `spec.config` may say for the types that are Ferroband's own, besides `type`, \
         `name` and `cniVersion`\n(0.1.0 to 1.1.0). Keys are read in any case and `null` counts as absent, as the Go plugins \
         do. Every other type is\nexecuted from the node's CNI folder, alone or in a chain (`plugins`).",
    );
    for (title, about, options) in [
        ("ipoib", "An IPoIB interface in the pod.", IPOIB),
        ("ib-sriov", "A virtual function of an InfiniBand adapter in the pod.", IB_SRIOV),
        ("rdma", "After another plugin in a chain, on nodes with exclusive RDMA namespaces.", RDMA),
        (
            "coordinator",
            "After another plugin in a chain: ways to the node, the services and the other pods.",
            COORDINATOR,
        ),
        ("ipam: whereabouts", "Addresses that are unique in the whole cluster.", WHEREABOUTS),
        ("ipam: spiderpool", "Addresses from SpiderIPPools.", SPIDERPOOL),
        ("ferroband, multus", "The meta plugin, in the configuration in front of the default network.", META),
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
    fn every_type_of_ours_has_its_section() {
        for role in PluginType::ALL {
            let found = page().lines().any(|line| line.starts_with("## ") && line.contains(role.as_str()));
            assert!(found, "{role}");
        }
    }
}
