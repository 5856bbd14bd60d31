//! The node, its devices, its programs and the API server.

use super::{Explanation, FaultCode, explain};

pub const TABLE: &[(FaultCode, Explanation)] = &[
    (
        FaultCode::KernelRefused,
        explain(
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
        explain(
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
        explain(
            "Another CNI plugin failed; its own words are in the message.",
            &["the default network is not ready", "a chained plugin did not like its configuration"],
            &["look that message up in the plugin's documentation, and at its pods on this node"],
        ),
    ),
    (
        FaultCode::DaemonAway,
        explain(
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
        explain(
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
        explain(
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
        explain(
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
        explain(
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
        explain(
            "The kernel of the node has no RDMA.",
            &["ib_core is not loaded", "the kernel was built without InfiniBand"],
            &["modprobe ib_core, and the adapter's driver (mlx5_ib for ConnectX-4 and newer)"],
        ),
    ),
    (
        FaultCode::NoDevice,
        explain(
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
        explain(
            "A device is in use and cannot be changed now.",
            &[
                "a pod holds it",
                "the number of virtual functions can change only by way of 0, while none is used",
            ],
            &["wait until the pods that use it have ended; it is tried again"],
        ),
    ),
];
