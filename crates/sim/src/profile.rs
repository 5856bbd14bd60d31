//! What hardware a simulated node has.

mod builtin;
mod validate;

use ferroband_kernel::NetnsMode;
use ferroband_model::{LinkLayer, PciAddress};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A description of a node's InfiniBand hardware.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// How RDMA devices and network namespaces go together at the start.
    #[serde(default)]
    pub netns_mode: NetnsMode,
    /// Whether the IPoIB interface of an RDMA device that is moved comes to be in the device's new namespace,
    /// as since Linux 6.17; before, and by default, it comes to be in the host's.
    #[serde(default)]
    pub ipoib_follows: bool,
    /// The host channel adapters.
    pub hcas: Vec<HcaProfile>,
    /// The graphics processors.
    #[serde(default)]
    pub gpus: Vec<GpuProfile>,
}

/// A graphics processor, to be near or far from adapters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GpuProfile {
    /// Its PCI address.
    pub pci: PciAddress,
    /// The PCI bridges above it, from the root port down.
    #[serde(default)]
    pub behind: Vec<PciAddress>,
    /// Its PCI device; the vendor is NVIDIA.
    pub device: PciId,
    /// The NUMA node it is on.
    #[serde(default)]
    pub numa: Option<u32>,
}

/// A host channel adapter: one PCI function with one RDMA device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HcaProfile {
    /// Its PCI address.
    pub pci: PciAddress,
    /// The PCI bridges above it, from the root port down.
    #[serde(default)]
    pub behind: Vec<PciAddress>,
    /// Its PCI vendor.
    pub vendor: PciId,
    /// Its PCI device.
    pub device: PciId,
    /// The driver it is bound to.
    pub driver: String,
    /// The NUMA node it is on.
    #[serde(default)]
    pub numa: Option<u32>,
    /// How many virtual functions it can have.
    #[serde(default)]
    pub total_vfs: u16,
    /// The PCI device of its virtual functions; one more than its own when absent, as Mellanox numbers them.
    #[serde(default)]
    pub vf_device: Option<PciId>,
    /// How far the first virtual function is from it, in routing identifiers.
    #[serde(default = "default_vf_offset")]
    pub vf_offset: u16,
    /// The name of its RDMA device.
    pub rdma: String,
    /// The maker's name of the chip: `MT4119`.
    pub model: String,
    /// The maker's name of the board: `MT_0000000008`.
    pub board: String,
    /// The version of its firmware.
    pub firmware: String,
    /// Its ports.
    pub ports: Vec<PortProfile>,
}

fn default_vf_offset() -> u16 {
    2
}

impl HcaProfile {
    /// Where virtual function `index` is.
    pub fn vf_address(&self, index: u16) -> Option<PciAddress> {
        self.pci.offset_by(self.vf_offset.checked_add(index)?)
    }

    /// What it speaks, by its first port; an adapter without ports speaks nothing else than InfiniBand.
    pub fn link_layer(&self) -> LinkLayer {
        self.ports.first().map_or(LinkLayer::InfiniBand, |port| port.link_layer)
    }
}

/// A port of an adapter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PortProfile {
    /// What it speaks.
    pub link_layer: LinkLayer,
    /// Its state.
    pub state: SimPortState,
    /// Its rate in sysfs's words: `100 Gb/sec (4X EDR)`.
    pub rate: String,
    /// Its interface, if it has one.
    #[serde(default)]
    pub netdev: Option<NetdevProfile>,
}

/// The state of a simulated port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SimPortState {
    /// No link.
    Down,
    /// A link, but no subnet manager has configured it.
    Init,
    /// Carries traffic.
    Active,
}

/// The interface of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NetdevProfile {
    /// Its name.
    pub name: String,
    /// Its other names.
    #[serde(default)]
    pub altnames: Vec<String>,
}

/// A vendor or device number of the PCI bus, written as four digits: `15b3`.
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
    /// The interfaces of all ports.
    pub fn netdevs(&self) -> impl Iterator<Item = &NetdevProfile> {
        self.ports().filter_map(|port| port.netdev.as_ref())
    }

    fn ports(&self) -> impl Iterator<Item = &PortProfile> {
        self.hcas.iter().flat_map(|hca| &hca.ports)
    }
}

#[cfg(test)]
mod tests;
