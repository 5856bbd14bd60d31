//! Explanations of the codes about the node, its devices and programs, and the API server.

use super::{Explanation, FaultCode, explain};

pub const TABLE: &[(FaultCode, Explanation)] = &[
    (
        FaultCode::KernelRefused,
        explain(
            "The kernel rejected a change to an interface, a device or a file.",
            &[
                "a kernel module is missing, or the adapter's driver or firmware does not support the change",
                "another program changed the interface at the same time",
                "another host uses the address (duplicate address detection)",
            ],
            &[
                "see the kernel error in the message, and the kernel log (dmesg) of the node",
                "find the host that uses the address, and exclude the address in the network's `ipam`",
            ],
        ),
    ),
    (
        FaultCode::NoPlugin,
        explain(
            "A CNI plugin that a network configuration uses is not installed on this node.",
            &[
                "`type` is misspelled",
                "the package of a chained plugin (tuning, sbr, …) is not installed on the node",
                "the network uses an alias of Ferroband (ipoib, whereabouts, …) that is not installed",
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
            "Another CNI plugin failed; the message contains its error.",
            &["the default network is not ready", "a chained plugin rejected its configuration"],
            &["see the plugin's documentation for the error, and the logs of its pods on this node"],
        ),
    ),
    (
        FaultCode::DaemonAway,
        explain(
            "ferroband-cni could not reach the node daemon.",
            &[
                "the daemon's pod on this node is being replaced, has crashed, or cannot start",
                "the daemon is waiting for the API server",
            ],
            &[
                "no action needed at first: the pod is retried automatically",
                "run kubectl -n ferroband-system get pods -o wide, and see the log of the pod on this node",
            ],
        ),
    ),
    (
        FaultCode::ApiUnavailable,
        explain(
            "The API server did not respond, or rejected a call.",
            &[
                "the control plane or the network path to it is down",
                "the daemon's ServiceAccount lacks a permission, for example after an update without the new manifests",
            ],
            &["check that kubectl works from the node", "apply the manifests of the installed version again"],
        ),
    ),
    (
        FaultCode::Journal,
        explain(
            "The journal of a pod's network setup could not be written or read.",
            &[
                "the disk under /var/lib/ferroband is full or damaged",
                "another call for the same pod is in progress",
            ],
            &["free disk space; a call in progress ends by itself, and this one is retried automatically"],
        ),
    ),
    (
        FaultCode::NoDefaultNetwork,
        explain(
            "There is no default network that Ferroband can delegate to.",
            &[
                "the cluster's CNI (Calico, Cilium, flannel, …) is not installed, or not ready on this node",
                "the configuration of the cluster's CNI in /etc/cni/net.d cannot be parsed",
            ],
            &["install a default network; Ferroband continues automatically when it is ready"],
        ),
    ),
    (
        FaultCode::PortNotReady,
        explain(
            "An InfiniBand port is not ready.",
            &[
                "the cable is unplugged, or the port is down",
                "no subnet manager runs on the fabric",
                "the port has no P_Key yet, because UFM or opensm is down, cannot be reached, or has not added it yet",
            ],
            &[
                "run ferroband inspect -o wide: the state must be Active and SM-LID must not be 0",
                "start a subnet manager",
                "run ferroband doctor: it reports a subnet manager that does not answer; ferroband partition diff lists \
                 the members that it does not have yet",
            ],
        ),
    ),
    (
        FaultCode::NoRdma,
        explain(
            "The node's kernel has no RDMA support.",
            &["ib_core is not loaded", "the kernel was built without InfiniBand"],
            &["load ib_core and the adapter's driver (mlx5_ib for ConnectX-4 and newer) with modprobe"],
        ),
    ),
    (
        FaultCode::NoDevice,
        explain(
            "A device is missing, or not in the expected namespace.",
            &[
                "the device was removed or has no driver",
                "the device is in the network namespace of another pod",
            ],
            &[
                "run ferroband inspect on the node to list its devices",
                "delete the pod, so that its replacement gets another device",
            ],
        ),
    ),
    (
        FaultCode::DeviceBusy,
        explain(
            "A device is in use and cannot be changed now.",
            &[
                "a pod uses the device",
                "the number of virtual functions can be changed only through 0, and only if none is in use",
            ],
            &["wait until the pods that use the device have ended; the change is retried automatically"],
        ),
    ),
    (
        FaultCode::DeviceNotAllocated,
        explain(
            "A network of the pod names a device that neither the kubelet nor a claim allocated to the pod.",
            &[
                "`deviceID` or `pciBusID` is set in the network's configuration, or `deviceID` in the pod's annotation",
                "`master` of an IPoIB network is the interface of a virtual function",
                "the RDMA device of another pod has the MAC address that the pod requests",
            ],
            &[
                "remove the device from the configuration, and name its resource in the network's annotation \
                 k8s.v1.cni.cncf.io/resourceName; the kubelet then allocates a device to each pod",
                "set `master` to the interface of a physical function",
            ],
        ),
    ),
];
