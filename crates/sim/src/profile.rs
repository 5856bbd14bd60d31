//! Hardware profiles of simulated nodes.

mod builtin;
mod validate;

use ferroband_kernel::NetnsMode;
use ferroband_model::{LinkLayer, PciAddress};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The InfiniBand hardware of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Profile {
    pub name: String,
    /// RDMA network namespace mode at power-on: shared or exclusive.
    #[serde(default)]
    pub netns_mode: NetnsMode,
    /// Whether the IPoIB interface of a moved RDMA device is created in the device's new namespace, as since Linux
    /// 6.17. Before that, and by default, it is created in the host's namespace.
    #[serde(default)]
    pub ipoib_follows: bool,
    /// Host channel adapters. Their GUIDs depend on their position in this list.
    pub hcas: Vec<HcaProfile>,
    #[serde(default)]
    pub gpus: Vec<GpuProfile>,
}

/// A GPU, with its location in the PCIe tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GpuProfile {
    pub pci: PciAddress,
    /// PCI bridges above the GPU, starting at the root port.
    #[serde(default)]
    pub behind: Vec<PciAddress>,
    /// PCI device ID; the vendor is NVIDIA.
    pub device: PciId,
    /// NUMA node; unknown if absent.
    #[serde(default)]
    pub numa: Option<u32>,
}

/// A host channel adapter: one PCI function with one RDMA device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HcaProfile {
    pub pci: PciAddress,
    /// PCI bridges above the adapter, starting at the root port.
    #[serde(default)]
    pub behind: Vec<PciAddress>,
    /// PCI vendor ID, for example `15b3` for Mellanox.
    pub vendor: PciId,
    /// PCI device ID of the physical function.
    pub device: PciId,
    /// Driver of the physical and virtual functions, for example `mlx5_core`.
    pub driver: String,
    /// NUMA node; unknown if absent.
    #[serde(default)]
    pub numa: Option<u32>,
    /// Maximum number of virtual functions (`sriov_totalvfs` in sysfs).
    #[serde(default)]
    pub total_vfs: u16,
    /// PCI device ID of the virtual functions. If absent, it is that of the physical function plus one, as
    /// for Mellanox adapters.
    #[serde(default)]
    pub vf_device: Option<PciId>,
    /// Offset of the first virtual function from the physical function, in PCI routing IDs.
    #[serde(default = "default_vf_offset")]
    pub vf_offset: u16,
    /// Name of the RDMA device, for example `mlx5_0`.
    pub rdma: String,
    /// Chip name of the vendor: `MT4119`.
    pub model: String,
    /// Board ID of the vendor: `MT_0000000008`.
    pub board: String,
    /// Firmware version as in sysfs: `16.35.4030`.
    pub firmware: String,
    pub ports: Vec<PortProfile>,
}

fn default_vf_offset() -> u16 {
    2
}

impl HcaProfile {
    /// PCI address of virtual function `index`.
    pub fn vf_address(&self, index: u16) -> Option<PciAddress> {
        self.pci.offset_by(self.vf_offset.checked_add(index)?)
    }

    /// Link layer of the first port; InfiniBand for an adapter without ports.
    pub fn link_layer(&self) -> LinkLayer {
        self.ports.first().map_or(LinkLayer::InfiniBand, |port| port.link_layer)
    }
}

/// A port of an adapter, with its link layer and network interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PortProfile {
    pub link_layer: LinkLayer,
    /// State at power-on.
    pub state: SimPortState,
    /// Rate as in sysfs: `100 Gb/sec (4X EDR)`.
    pub rate: String,
    /// Network interface of the port, if any.
    #[serde(default)]
    pub netdev: Option<NetdevProfile>,
}

/// Logical state of a simulated port (`state` in sysfs).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SimPortState {
    /// The port has no link.
    Down,
    /// The port has a link, but no subnet manager has configured it.
    Init,
    /// The port carries traffic.
    Active,
}

/// Names of the network interface of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NetdevProfile {
    pub name: String,
    #[serde(default)]
    pub altnames: Vec<String>,
}

/// A PCI vendor or device ID, four hexadecimal digits: `15b3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PciId(pub u16);

impl fmt::Display for PciId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}", self.0)
    }
}

impl From<PciId> for String {
    fn from(id: PciId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for PciId {
    type Error = std::num::ParseIntError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        u16::from_str_radix(&text, 16).map(Self)
    }
}

impl Profile {
    /// The interfaces of all ports of all adapters.
    pub fn netdevs(&self) -> impl Iterator<Item = &NetdevProfile> {
        self.ports().filter_map(|port| port.netdev.as_ref())
    }

    fn ports(&self) -> impl Iterator<Item = &PortProfile> {
        self.hcas.iter().flat_map(|hca| &hca.ports)
    }
}

#[cfg(test)]
mod tests;
