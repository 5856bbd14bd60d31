//! Generates `annotations.md`, the reference of annotations and labels.

use super::{markdown_table, page_header};
use ferroband_api::annotation::{DEFAULT_NETWORK, NETWORK_STATUS, NETWORKS, RESOURCE_NAME};

/// Each row is the key of an annotation or label, the object that has it, who writes it, and its meaning.
const KEYS: &[(&str, &str, &str, &str)] = &[
    (
        NETWORKS,
        "pod",
        "you",
        "Networks that the pod gets in addition to the default one: a comma list or a JSON list, see below.",
    ),
    (
        DEFAULT_NETWORK,
        "pod",
        "you",
        "A network that replaces the cluster's default one. A name without a namespace is looked up in kube-system.",
    ),
    (
        NETWORK_STATUS,
        "pod",
        "Ferroband",
        "The attached interfaces as JSON: name, interface, ips, mac, mtu, default, dns, device-info and gateway.",
    ),
    (
        RESOURCE_NAME,
        "NetworkAttachmentDefinition",
        "you",
        "Device plugin resource of the network. The pod must request one device for each use of the network.",
    ),
    (
        "ipam.spidernet.io/ippool",
        "pod",
        "you",
        "IP pools of the pod: `{\"ipv4\": [\"a\"], \"ipv6\": [\"b\"]}`, by preference. Names may contain wildcards.",
    ),
    (
        "ipam.spidernet.io/ippools",
        "pod",
        "you",
        "IP pools by interface: a list of such objects, each with `interface`. Takes precedence over `ippool`.",
    ),
    (
        "ipam.spidernet.io/routes",
        "pod",
        "you",
        "Additional routes of the pod: `[{\"dst\": \"10.0.0.0/16\", \"gw\": \"192.168.1.1\"}]`.",
    ),
    (
        "ipam.spidernet.io/default-ipv4-ippool",
        "namespace",
        "you",
        "Default IPv4 pools for pods of the namespace: `[\"a\"]`.",
    ),
    (
        "ipam.spidernet.io/default-ipv6-ippool",
        "namespace",
        "you",
        "Default IPv6 pools for pods of the namespace.",
    ),
    (
        "ferroband.io/simulated",
        "node (label)",
        "Ferroband",
        "`true` if the node's InfiniBand hardware is simulated.",
    ),
    ("ferroband.io/verify", "pod (label)", "ferroband verify", "Marks the temporary pods of a test run."),
];

/// Fields of the JSON form of `k8s.v1.cni.cncf.io/networks`.
const FIELDS: &[(&str, &str)] = &[
    ("name", "Name of the network. The only required field."),
    ("namespace", "Namespace of the network; defaults to the pod's namespace."),
    (
        "interface",
        "Interface name in the pod; defaults to `net1`, `net2`, … by position. Older name: `interfaceRequest`.",
    ),
    (
        "ips",
        "Requested addresses, with or without prefix length. With `whereabouts` and `spiderpool` addresses, they must be \
         in a pool of the network. Also passed to plugins with the capability `ips`.",
    ),
    ("mac", "Requested link-layer address; passed to plugins with the capability `mac`."),
    (
        "infiniband-guid",
        "Requested GUID of eight bytes; passed to `ib-sriov`, and to other plugins with the capability `infinibandGUID`.",
    ),
    ("deviceID", "ID of a specific device, instead of the next one of the resource."),
    ("cni-args", "An object that is passed to every plugin of the network in `args.cni`."),
    (
        "default-route",
        "Gateways of the pod's default route over this interface; an empty list removes the default route.",
    ),
    ("portMappings", "Host ports to forward; passed to plugins with the capability `portMappings`."),
    ("bandwidth", "Traffic limits; passed to plugins with the capability `bandwidth`."),
    ("ipam-claim-reference", "Name of an IPAMClaim; passed on."),
];

pub fn page() -> String {
    let mut text = page_header(
        "Annotations and labels",
        "Names and meanings are the same as in the projects that Ferroband replaces.",
    );
    text.push('\n');
    let rows = KEYS
        .iter()
        .map(|(key, on, who, says)| [format!("`{key}`"), (*on).into(), (*who).into(), (*says).into()]);
    text.push_str(&markdown_table(["Key", "On", "Written by", "Meaning"], rows));
    text.push_str(
        "\n## k8s.v1.cni.cncf.io/networks\n\nA comma list of `[NAMESPACE/]NAME[@INTERFACE]`. If the value contains \
         `[`, `{` or `\"`, it is JSON: a list of objects with these fields:\n\n",
    );
    text.push_str(&markdown_table(
        ["Field", "Meaning"],
        FIELDS.iter().map(|(name, says)| [format!("`{name}`"), (*says).into()]),
    ));
    text
}
