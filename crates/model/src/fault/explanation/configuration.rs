//! Explanations of the codes about CNI calls, configurations, annotations, networks and parent interfaces.

use super::{Explanation, FaultCode, explain};

pub const TABLE: &[(FaultCode, Explanation)] = &[
    (
        FaultCode::BadCall,
        explain(
            "The container runtime or another CNI plugin called ferroband-cni with invalid CNI parameters.",
            &[
                "a variable such as CNI_CONTAINERID, CNI_IFNAME or CNI_NETNS is missing or malformed",
                "CNI_ARGS has no pod (K8S_POD_NAME, K8S_POD_NAMESPACE, K8S_POD_UID)",
                "the binary was installed under a name that is not a plugin type",
            ],
            &[
                "call the plugin through a runtime, or set the variables of the CNI specification",
                "update the runtime: recent containerd and CRI-O versions pass all of CNI_ARGS",
                "use only the names that `ferroband node --alias` accepts",
            ],
        ),
    ),
    (
        FaultCode::Undecodable,
        explain(
            "A configuration is not valid JSON or YAML, or a field has the wrong type.",
            &[
                "spec.config of a NetworkAttachmentDefinition is not JSON, or has a field of the wrong type",
                "the `ipam` object of a network has a field of the wrong type",
                "a device pool or simulated hardware file cannot be parsed",
            ],
            &[
                "correct the field named in the message",
                "see docs/reference/cni.md for the types of all CNI options",
            ],
        ),
    ),
    (
        FaultCode::InvalidConfig,
        explain(
            "A configuration is well-formed, but invalid.",
            &[
                "a value is out of range, or two fields contradict each other",
                "a network has no `master`, or its `ipam` has neither a range nor a pool",
                "a configuration directory contains a file that is not a configuration",
            ],
            &["correct the field named in the message; the pod is retried automatically"],
        ),
    ),
    (
        FaultCode::IncompatibleVersion,
        explain(
            "Ferroband does not support the configuration's `cniVersion`, or it is too old for the command.",
            &[
                "`cniVersion` is not a released version of the CNI specification",
                "CHECK, GC or STATUS was called with a `cniVersion` that does not define the command",
            ],
            &["set `cniVersion` to 1.0.0 or 1.1.0"],
        ),
    ),
    (
        FaultCode::InvalidAnnotation,
        explain(
            "The pod annotation k8s.v1.cni.cncf.io/networks or v1.multus-cni.io/default-network is invalid.",
            &[
                "the annotation looks like JSON but cannot be parsed",
                "the annotation contains a malformed name, interface, address or MAC",
                "the annotation refers to a network in another namespace, and namespace isolation is on",
            ],
            &[
                "use `namespace/name@interface`, separated by commas, or a JSON list of objects",
                "see docs/reference/annotations.md for all fields",
            ],
        ),
    ),
    (
        FaultCode::NoNetworkFound,
        explain(
            "A network that the pod requests does not exist.",
            &[
                "the NetworkAttachmentDefinition is not created yet, or is not in the pod's namespace",
                "the network comes from a SpiderMultusConfig or SriovIBNetwork with an error in its status",
            ],
            &[
                "kubectl get network-attachment-definitions -A",
                "add the namespace to the name: `namespace/name`",
                "create the network; the pod is then retried automatically",
            ],
        ),
    ),
    (
        FaultCode::PodNotFound,
        explain(
            "The pod that the runtime starts was not found.",
            &[
                "the pod was deleted while it was starting",
                "the node daemon's watch is behind; the next attempt succeeds",
            ],
            &["no action needed; if it persists, check that the node daemon can reach the API server"],
        ),
    ),
    (
        FaultCode::PodReplaced,
        explain(
            "The pod was re-created under the same name; the sandbox belongs to the old pod.",
            &["the pod was deleted and re-created (StatefulSet) while its first sandbox was starting"],
            &["no action needed: the old sandbox is removed, and the new pod gets its own"],
        ),
    ),
    (
        FaultCode::NoParent,
        explain(
            "The `master` interface of a network does not exist on this node.",
            &[
                "the interface has another name on this node",
                "ib_ipoib or the adapter's driver is not loaded",
                "the network is for other nodes",
            ],
            &[
                "run ferroband inspect on the node to list its interfaces",
                "modprobe ib_ipoib",
                "use a nodeSelector to restrict such pods to nodes that have the interface",
            ],
        ),
    ),
    (
        FaultCode::NotIpoib,
        explain(
            "The `master` interface of a network is not an IPoIB interface.",
            &["`master` is an Ethernet interface", "the port's link layer is Ethernet (RoCE)"],
            &["use an IPoIB interface; `ip -d link show type ipoib` lists them"],
        ),
    ),
    (
        FaultCode::NameTaken,
        explain(
            "An interface name is already in use.",
            &[
                "two networks of the pod request the same interface name",
                "a network requests eth0, which belongs to the default network",
                "the pod's sandbox is already attached",
            ],
            &["omit the interface name, or choose another; default names are net1, net2, … by position"],
        ),
    ),
    (
        FaultCode::BadNamespace,
        explain(
            "The pod's network namespace cannot be used.",
            &[
                "the sandbox no longer exists, or its namespace file was left over from before a reboot",
                "the caller is not root in the host namespaces",
            ],
            &["no action needed: the runtime creates a new sandbox; if it persists, delete the pod"],
        ),
    ),
];
