//! SriovNetworkNodePolicy (`sriovnetwork.openshift.io/v1`): which virtual functions to create on which nodes.

use super::{ConditionsStatus, PolicyBridge};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The desired virtual functions on the selected devices of the selected nodes.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "sriovnetwork.openshift.io",
    version = "v1",
    kind = "SriovNetworkNodePolicy",
    plural = "sriovnetworknodepolicies",
    namespaced,
    status = "ConditionsStatus",
    derive = "PartialEq",
    doc = "The desired virtual functions on the selected devices of the selected nodes.",
    printcolumn(name = "Resource", type_ = "string", json_path = ".spec.resourceName"),
    printcolumn(name = "VFs", type_ = "integer", json_path = ".spec.numVfs"),
    printcolumn(name = "Priority", type_ = "integer", json_path = ".spec.priority"),
    printcolumn(
        name = "Matched",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Matched\")].status"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct SriovNetworkNodePolicySpec {
    /// Device plugin resource of the functions, without prefix.
    #[schemars(length(max = 63))]
    pub resource_name: String,
    /// Labels that a node must have; all must match.
    pub node_selector: BTreeMap<String, String>,
    /// Devices to configure. At least one field must be set, and all that are set must match.
    pub nic_selector: NicSelector,
    /// Number of virtual functions per device.
    #[schemars(range(min = 0))]
    pub num_vfs: i64,
    /// Priority when policies conflict; the lower number wins.
    #[schemars(range(min = 0, max = 99))]
    pub priority: Option<i64>,
    /// MTU of the functions in bytes; unchanged if absent.
    #[schemars(range(min = 1))]
    pub mtu: Option<i64>,
    /// Driver: `netdevice` or `vfio-pci`. `ib` and `infiniBand` mean `netdevice` with `linkType: ib`.
    #[serde(default = "netdevice")]
    #[schemars(extend("enum" = ["netdevice", "vfio-pci", "ib", "infiniBand"]))]
    pub device_type: String,
    /// Whether containers also get the functions' RDMA devices.
    pub is_rdma: Option<bool>,
    /// Whether containers also get `/dev/vhost-net`.
    pub need_vhost_net: Option<bool>,
    /// Link layer of the port: `eth` or `ib`, in lower or upper case.
    #[schemars(extend("enum" = ["eth", "ETH", "ib", "IB"]))]
    pub link_type: Option<String>,
    /// Mode of the adapter's embedded switch: `legacy` or `switchdev`.
    #[serde(rename = "eSwitchMode")]
    #[schemars(extend("enum" = ["legacy", "switchdev"]))]
    pub e_switch_mode: Option<String>,
    /// Type of the vDPA device: `virtio` or `vhost`.
    #[schemars(extend("enum" = ["virtio", "vhost"]))]
    pub vdpa_type: Option<String>,
    /// If true, the device plugin does not report NUMA topology to the kubelet.
    pub exclude_topology: Option<bool>,
    /// Whether the virtual functions are created outside of Ferroband.
    pub externally_managed: Option<bool>,
    /// Software bridge for the functions' representors.
    pub bridge: Option<PolicyBridge>,
}

fn netdevice() -> String {
    "netdevice".into()
}

/// Selects the physical functions of a policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NicSelector {
    /// PCI vendor ID, four hexadecimal digits.
    #[schemars(length(max = 16))]
    pub vendor: Option<String>,
    /// PCI device ID of the physical function, four hexadecimal digits.
    #[serde(rename = "deviceID")]
    #[schemars(length(max = 16))]
    pub device_id: Option<String>,
    /// PCI addresses of physical functions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 64)))]
    pub root_devices: Vec<String>,
    /// Names or altnames of physical functions. The suffix `#a-b` selects only virtual functions a to b.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 160)))]
    pub pf_names: Vec<String>,
    /// Network of the virtualization platform that the adapter is attached to, for nodes that are virtual machines.
    #[schemars(length(max = 512))]
    pub net_filter: Option<String>,
}

impl SriovNetworkNodePolicySpec {
    /// Whether InfiniBand is requested, by `linkType` or by a `deviceType` of `ib` or `infiniBand`.
    pub fn is_infiniband(&self) -> bool {
        self.requested_link_type().is_some_and(|link| link.eq_ignore_ascii_case("ib"))
    }

    /// Returns the link layer that `linkType` or `deviceType` requests, as written; `None` if they request none.
    pub fn requested_link_type(&self) -> Option<&str> {
        let by_device = matches!(self.device_type.as_str(), "ib" | "infiniBand").then_some("ib");
        by_device.or(self.link_type.as_deref().filter(|link| !link.is_empty()))
    }

    /// Returns the driver of the functions: `netdevice` (the kernel's network driver) or `vfio-pci`.
    pub fn driver(&self) -> &str {
        if self.device_type == "vfio-pci" { "vfio-pci" } else { "netdevice" }
    }

    /// Whether containers get RDMA devices. Always true for InfiniBand, which is useless without them.
    pub fn uses_rdma(&self) -> bool {
        self.driver() == "netdevice" && (self.is_infiniband() || self.is_rdma == Some(true))
    }

    /// Returns the priority; 99, the lowest, if the policy sets none.
    pub fn priority(&self) -> i64 {
        self.priority.unwrap_or(99)
    }
}

impl NicSelector {
    /// Whether no field is set. An empty selector matches no device.
    pub fn is_empty(&self) -> bool {
        let none = |text: &Option<String>| text.as_deref().unwrap_or_default().is_empty();
        none(&self.vendor)
            && none(&self.device_id)
            && none(&self.net_filter)
            && self.root_devices.is_empty()
            && self.pf_names.is_empty()
    }
}
