//! Annotations and labels that are read or written.

use super::{markdown_table, page_header};
use ferroband_api::annotation::{DEFAULT_NETWORK, NETWORK_STATUS, NETWORKS, RESOURCE_NAME};

/// Key, what it is on, who writes it, and what it says.
const KEYS: &[(&str, &str, &str, &str)] = &[
    (
        NETWORKS,
        "pod",
        "you",
        "The networks that the pod gets besides the default one: a comma list or a JSON list, see below.",
    ),
    (
        DEFAULT_NETWORK,
        "pod",
        "you",
        "A network in place of the cluster's default one. A name without a namespace is looked for in kube-system.",
    ),
    (
        NETWORK_STATUS,
        "pod",
        "Ferroband",
        "What the pod got: a JSON list with name, interface, ips, mac, mtu, default, dns, device-info, gateway of each interface.",
    ),
    (
        RESOURCE_NAME,
        "NetworkAttachmentDefinition",
        "you",
        "The resource whose devices the network uses; the pod must ask for as many in its limits.",
    ),
    (
        "ipam.spidernet.io/ippool",
        "pod",
        "you",
        "Pools for the pod: `{\"ipv4\": [\"a\"], \"ipv6\": [\"b\"]}`, the first preferred; names may be patterns.",
    ),
    (
        "ipam.spidernet.io/ippools",
        "pod",
        "you",
        "The same for several interfaces: a list of such objects, each with `interface`. Goes before `ippool`.",
    ),
    (
        "ipam.spidernet.io/routes",
        "pod",
        "you",
        "Routes for the pod: `[{\"dst\": \"10.0.0.0/16\", \"gw\": \"192.168.1.1\"}]`.",
    ),
    (
        "ipam.spidernet.io/default-ipv4-ippool",
        "namespace",
        "you",
        "Pools of IPv4 addresses for pods of the namespace that name none: `[\"a\"]`.",
    ),
    ("ipam.spidernet.io/default-ipv6-ippool", "namespace", "you", "The same for IPv6."),
    (
        "ferroband.io/simulated",
        "node (label)",
        "Ferroband",
        "`true` where the node's InfiniBand hardware is simulated.",
    ),
    ("ferroband.io/verify", "pod (label)", "ferroband verify", "Marks the short-lived pods of a trial."),
];

/// Fields of the JSON form of `k8s.v1.cni.cncf.io/networks`.
const FIELDS: &[(&str, &str)] = &[
    ("name", "The network's name. The only field that must be there."),
    ("namespace", "Its namespace; the pod's own unless given."),
    (
        "interface",
        "The interface's name in the pod; `net1`, `net2`, … by position unless given. `interfaceRequest` is the same.",
    ),
    (
        "ips",
        "Addresses to ask for, with or without prefix length; handed to plugins with the capability `ips`.",
    ),
    ("mac", "A link-layer address; handed to plugins with the capability `mac`."),
    ("infiniband-guid", "A GUID of eight bytes; handed to plugins with the capability `infinibandGUID`."),
    ("deviceID", "A device by its id, in place of the next one of the resource."),
    ("cni-args", "An object that every plugin of the network finds in `args.cni`."),
    (
        "default-route",
        "Gateways of the pod's default route over this interface; an empty list removes the default route.",
    ),
    ("portMappings", "Ports to forward; handed to plugins with the capability `portMappings`."),
    ("bandwidth", "Limits of traffic; handed to plugins with the capability `bandwidth`."),
    ("ipam-claim-reference", "A claim on addresses; handed on."),
];

pub fn page() -> String {
    let mut text = page_header(
        "Annotations and labels",
        "Names and meanings are those of the systems that Ferroband stands in for.",
    );
    text.push('\n');
    let rows = KEYS
        .iter()
        .map(|(key, on, who, says)| [format!("`{key}`"), (*on).into(), (*who).into(), (*says).into()]);
    text.push_str(&markdown_table(["Key", "On", "Written by", "Says"], rows));
    text.push_str(
        "\n## k8s.v1.cni.cncf.io/networks\n\nAs a comma list: `[NAMESPACE/]NAME[@INTERFACE]`. Where it contains `[`, `{` or \
         `\"` it is JSON, a list of objects:\n\n",
    );
    text.push_str(&markdown_table(
        ["Field", "Meaning"],
        FIELDS.iter().map(|(name, says)| [format!("`{name}`"), (*says).into()]),
    ));
    text
}
