//! What was asked for: calls, configurations, annotations, networks and their masters.

use super::{Explanation, FaultCode, explain};

pub const TABLE: &[(FaultCode, Explanation)] = &[
    (
        FaultCode::BadCall,
        explain(
            "The container runtime, or a plugin above ours, called ferroband-cni in a way that the CNI specification does not know.",
            &[
                "a variable such as CNI_CONTAINERID, CNI_IFNAME or CNI_NETNS is missing or malformed",
                "CNI_ARGS holds no pod (K8S_POD_NAME, K8S_POD_NAMESPACE, K8S_POD_UID)",
                "the program was installed under a name that stands for no plugin",
            ],
            &[
                "call it through a runtime, or give the variables of the specification",
                "update the runtime: containerd and CRI-O of the last years pass all of CNI_ARGS",
                "use only the names that `ferroband node --alias` takes",
            ],
        ),
    ),
    (
        FaultCode::Undecodable,
        explain(
            "A configuration is not JSON or YAML of the right shape.",
            &[
                "a NetworkAttachmentDefinition's spec.config is not JSON, or a field has another type than it should",
                "the `ipam` object of a network has a field of the wrong type",
                "a file of device pools or of simulated hardware cannot be read",
            ],
            &[
                "correct the field that the message names",
                "see the reference of CNI options for the types: docs/reference/cni.md",
            ],
        ),
    ),
    (
        FaultCode::InvalidConfig,
        explain(
            "A configuration can be read, but asks for something that cannot be.",
            &[
                "a field has a value outside its range, or two fields contradict each other",
                "a network names no `master`, or its `ipam` names neither range nor pool",
                "a folder of configurations has a file that is not one",
            ],
            &["correct the field that the message names; the pod is tried again by itself"],
        ),
    ),
    (
        FaultCode::IncompatibleVersion,
        explain(
            "The configuration's `cniVersion` is not one that Ferroband speaks, or is too old for the command.",
            &["a version that was never released", "CHECK, GC or STATUS asked of a version that has none"],
            &["set `cniVersion` to 1.0.0 or 1.1.0"],
        ),
    ),
    (
        FaultCode::InvalidAnnotation,
        explain(
            "The pod's annotation k8s.v1.cni.cncf.io/networks or v1.multus-cni.io/default-network cannot be understood.",
            &[
                "it begins like JSON and is not",
                "a name, an interface, an address or a MAC in it is malformed",
                "it names a network of another namespace where that is not allowed",
            ],
            &[
                "write `namespace/name@interface`, separated by commas, or a JSON list of objects",
                "see docs/reference/annotations.md for every field",
            ],
        ),
    ),
    (
        FaultCode::NoNetworkFound,
        explain(
            "A network that the pod names does not exist.",
            &[
                "the NetworkAttachmentDefinition was not made yet, or is in another namespace than the pod",
                "a SpiderMultusConfig or SriovIBNetwork that should make it has an error in its status",
            ],
            &[
                "kubectl get network-attachment-definitions -A",
                "write the namespace before the name: `namespace/name`",
                "the pod is tried again by itself as soon as the network is there",
            ],
        ),
    ),
    (
        FaultCode::PodNotFound,
        explain(
            "The API server does not know the pod that the runtime starts.",
            &[
                "the pod was deleted while it started",
                "the node daemon's watch is a moment behind; then the next try succeeds",
            ],
            &["nothing, unless it stays: then see whether the node daemon reaches the API server"],
        ),
    ),
    (
        FaultCode::PodReplaced,
        explain(
            "The pod of this name is another one now than the one that the sandbox is for.",
            &["the pod was deleted and made again (StatefulSet) while its first sandbox started"],
            &["nothing: the sandbox of the pod that is gone is removed, and the new pod gets its own"],
        ),
    ),
    (
        FaultCode::NoParent,
        explain(
            "The interface that a network names as `master` is not on this node.",
            &[
                "the node's interface has another name",
                "ib_ipoib is not loaded, or the adapter has no driver",
                "the network is for other nodes",
            ],
            &[
                "ferroband inspect (on the node) lists its interfaces",
                "modprobe ib_ipoib",
                "keep such pods to nodes that have the interface, with a nodeSelector",
            ],
        ),
    ),
    (
        FaultCode::NotIpoib,
        explain(
            "The interface that a network names as `master` is not an IPoIB interface.",
            &["the name is that of an Ethernet interface", "the port's link layer is Ethernet (RoCE)"],
            &["name an IPoIB interface: `ip -d link show type ipoib`"],
        ),
    ),
    (
        FaultCode::NameTaken,
        explain(
            "An interface name is already used.",
            &[
                "two networks of the pod ask for the same interface name",
                "a network asks for eth0, which is the default network's",
                "the pod's sandbox was attached already",
            ],
            &["leave the interface name out, or choose another; names are given by position: net1, net2, …"],
        ),
    ),
    (
        FaultCode::BadNamespace,
        explain(
            "The pod's network namespace cannot be used.",
            &[
                "the sandbox is gone already, or its file was left behind by a reboot",
                "the caller is not root in the host's namespaces",
            ],
            &["nothing: the runtime makes a new sandbox. If it stays, delete the pod"],
        ),
    ),
];
