//! What each code means, why it comes up and what to do: the one table behind `ferroband explain`, the book's list of
//! codes and nothing else. A test finds a code without its entry.

use super::FaultCode;

/// What is to be known about a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// What it says, in a sentence.
    pub meaning: &'static str,
    /// Why it comes up, the most frequent first.
    pub causes: &'static [&'static str],
    /// What to do, in the same order as far as they belong together.
    pub remedies: &'static [&'static str],
}

const fn about(
    meaning: &'static str,
    causes: &'static [&'static str],
    remedies: &'static [&'static str],
) -> Explanation {
    Explanation { meaning, causes, remedies }
}

/// For a code that somebody forgot to explain; a test finds it.
const UNEXPLAINED: Explanation = about("It has no explanation yet.", &[], &[]);

impl FaultCode {
    /// Whether the runtime is asked to try again: such a failure ends by itself when its cause is gone.
    pub fn is_tried_again(self) -> bool {
        self.cni() == 11
    }

    /// What it means, why, and what to do.
    pub fn explanation(self) -> Explanation {
        TABLE.iter().find(|(code, _)| *code == self).map_or(UNEXPLAINED, |(_, explanation)| *explanation)
    }
}

/// In the order of the codes.
const TABLE: &[(FaultCode, Explanation)] = &[
    (
        FaultCode::BadCall,
        about(
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
        about(
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
        about(
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
        about(
            "The configuration's `cniVersion` is not one that Ferroband speaks, or is too old for the command.",
            &["a version that was never released", "CHECK, GC or STATUS asked of a version that has none"],
            &["set `cniVersion` to 1.0.0 or 1.1.0"],
        ),
    ),
    (
        FaultCode::InvalidAnnotation,
        about(
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
        about(
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
        about(
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
        about(
            "The pod of this name is another one now than the one that the sandbox is for.",
            &["the pod was deleted and made again (StatefulSet) while its first sandbox started"],
            &["nothing: the sandbox of the pod that is gone is removed, and the new pod gets its own"],
        ),
    ),
    (
        FaultCode::NoParent,
        about(
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
        about(
            "The interface that a network names as `master` is not an IPoIB interface.",
            &["the name is that of an Ethernet interface", "the port's link layer is Ethernet (RoCE)"],
            &["name an IPoIB interface: `ip -d link show type ipoib`"],
        ),
    ),
    (
        FaultCode::NameTaken,
        about(
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
        about(
            "The pod's network namespace cannot be used.",
            &[
                "the sandbox is gone already, or its file was left behind by a reboot",
                "the caller is not root in the host's namespaces",
            ],
            &["nothing: the runtime makes a new sandbox. If it stays, delete the pod"],
        ),
    ),
    (
        FaultCode::PoolExhausted,
        about(
            "No address is free in the range or pool.",
            &[
                "all addresses are held by pods",
                "addresses of pods on a lost node are kept until it is known that those pods no longer run",
                "the range excludes most of itself",
            ],
            &[
                "ferroband status shows how many addresses each space has given out; delete pods, or widen the range",
                "for a node that is gone for good: delete the Node, or set the taint node.kubernetes.io/out-of-service",
            ],
        ),
    ),
    (
        FaultCode::AddressHeld,
        about(
            "The address is somebody else's, or may still be.",
            &[
                "the pod asks for an address that another pod has",
                "the pod of a StatefulSet was made again while its earlier self may still run, for example on a lost node",
            ],
            &[
                "choose another address, or delete the pod that has it",
                "for a node that is gone for good: delete the Node, or set the taint node.kubernetes.io/out-of-service",
            ],
        ),
    ),
    (
        FaultCode::NoPool,
        about(
            "Nobody names a pool of addresses, or none of those named may be used.",
            &[
                "neither the network, the pod, its namespace nor a default SpiderIPPool says where addresses come from",
                "the pools that are named do not exist, are disabled, or are for other pods, namespaces, nodes or networks",
            ],
            &[
                "name a SpiderIPPool in the network or in the pod's annotation ipam.spidernet.io/ippool",
                "the message says for each pool why it is out; change its affinity or the pod's labels",
            ],
        ),
    ),
    (
        FaultCode::KernelRefused,
        about(
            "The kernel refused a change to an interface, a device or a file.",
            &[
                "a module is missing, or the adapter's driver or firmware cannot do it",
                "somebody else changed the interface in between",
                "an address is used by another machine already (duplicate address detection)",
            ],
            &[
                "the message has the kernel's own words; the node's kernel log (dmesg) often has more",
                "find who has the address, and exclude it in the network's `ipam`",
            ],
        ),
    ),
    (
        FaultCode::NoPlugin,
        about(
            "A CNI program that a network's configuration names is not installed on this node.",
            &[
                "`type` is misspelt",
                "a chained plugin (tuning, sbr, …) comes from a package that the node lacks",
                "the network uses another type name of ours, and Ferroband was installed without that alias",
            ],
            &[
                "install the CNI plugins package on the node, in /opt/cni/bin",
                "install Ferroband with the alias, for example `ferroband manifests --alias ipoib,whereabouts`",
            ],
        ),
    ),
    (
        FaultCode::PluginFailed,
        about(
            "Another CNI plugin failed; its own words are in the message.",
            &["the default network is not ready", "a chained plugin did not like its configuration"],
            &["look that message up in the plugin's documentation, and at its pods on this node"],
        ),
    ),
    (
        FaultCode::DaemonAway,
        about(
            "ferroband-cni could not ask the node daemon.",
            &[
                "the daemon's pod on this node is being replaced, has crashed, or could not start",
                "the daemon waits for the API server",
            ],
            &[
                "nothing for a moment: the pod is tried again",
                "kubectl -n ferroband-system get pods -o wide, and the log of the one on this node",
            ],
        ),
    ),
    (
        FaultCode::ApiUnavailable,
        about(
            "The API server did not answer, or refused.",
            &[
                "the control plane or the way to it is down",
                "the daemon's account lacks a right, for example after an update without its new manifests",
            ],
            &[
                "see whether kubectl works from the node",
                "apply the manifests of the installed version again",
            ],
        ),
    ),
    (
        FaultCode::Journal,
        about(
            "The record of what was done to a pod's network could not be written or read.",
            &[
                "the disk under /var/lib/ferroband is full or damaged",
                "another call for the same pod is under way",
            ],
            &["free space; a call under way ends by itself and this one is tried again"],
        ),
    ),
    (
        FaultCode::NoDefaultNetwork,
        about(
            "There is no default network that Ferroband could stand in front of.",
            &[
                "the cluster's CNI (Calico, Cilium, flannel, …) is not installed, or not yet up on this node",
                "its configuration in /etc/cni/net.d cannot be read",
            ],
            &["install a default network first; Ferroband waits for it and goes on by itself"],
        ),
    ),
    (
        FaultCode::PortNotReady,
        about(
            "A port of the fabric cannot be used yet.",
            &[
                "the cable is out, or the port is down",
                "no subnet manager runs on the fabric",
                "the port has no P_Key yet",
            ],
            &[
                "ferroband inspect -o wide: the state must be Active and SM-LID not 0",
                "start a subnet manager",
            ],
        ),
    ),
    (
        FaultCode::NoRdma,
        about(
            "The kernel of the node has no RDMA.",
            &["ib_core is not loaded", "the kernel was built without InfiniBand"],
            &["modprobe ib_core, and the adapter's driver (mlx5_ib for ConnectX-4 and newer)"],
        ),
    ),
    (
        FaultCode::NoDevice,
        about(
            "A device is not there, or not where it should be.",
            &["it was unplugged or has lost its driver", "it is in the network namespace of another pod"],
            &[
                "ferroband inspect (on the node) shows what is there",
                "delete the pod to have it given another device",
            ],
        ),
    ),
    (
        FaultCode::DeviceBusy,
        about(
            "A device is in use and cannot be changed now.",
            &[
                "a pod holds it",
                "the number of virtual functions can change only by way of 0, while none is used",
            ],
            &["wait until the pods that use it have ended; it is tried again"],
        ),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_meaning_a_cause_and_a_remedy() {
        for code in FaultCode::all() {
            let explained = TABLE.iter().filter(|(other, _)| *other == code).count();
            assert_eq!(explained, 1, "{code:?}: add it to the table");
            let Explanation { meaning, causes, remedies } = code.explanation();
            assert!(meaning.ends_with('.') && meaning.len() > 20, "{code:?}: {meaning}");
            assert!(!causes.is_empty() && !remedies.is_empty(), "{code:?}");
            for clause in causes.iter().chain(remedies) {
                assert!(!clause.ends_with('.') && clause.len() > 10, "{code:?}: {clause}");
            }
        }
    }
}
