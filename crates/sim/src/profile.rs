//! What hardware a simulated node has.

use crate::Error;
use ferroband_model::{LinkLayer, PciAddress};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// A description of a node's InfiniBand hardware.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// The host channel adapters.
    pub hcas: Vec<Hca>,
}

/// A host channel adapter: one PCI function with one RDMA device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Hca {
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
    /// The name of its RDMA device.
    pub rdma: String,
    /// The maker's name of the chip: `MT4119`.
    pub model: String,
    /// The maker's name of the board: `MT_0000000008`.
    pub board: String,
    /// The version of its firmware.
    pub firmware: String,
    /// Its ports.
    pub ports: Vec<Port>,
}

/// A port of an adapter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Port {
    /// What it speaks.
    pub link_layer: LinkLayer,
    /// Its state.
    pub state: PortState,
    /// Its rate in sysfs's words: `100 Gb/sec (4X EDR)`.
    pub rate: String,
    /// Its interface, if it has one.
    #[serde(default)]
    pub netdev: Option<Netdev>,
}

/// The state of a simulated port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PortState {
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
pub struct Netdev {
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

impl Default for Profile {
    /// One ConnectX-5 in InfiniBand mode at 0000:86:00.0, the card of the documents that this product is made
    /// from.
    fn default() -> Self {
        let place = |text: &str| text.parse().ok();
        Self {
            name: "default".to_owned(),
            hcas: place("0000:86:00.0")
                .map(|pci| Hca {
                    pci,
                    behind: place("0000:85:02.0").into_iter().collect(),
                    vendor: PciId(0x15b3),
                    device: PciId(0x1017),
                    driver: "mlx5_core".to_owned(),
                    numa: Some(0),
                    total_vfs: 16,
                    rdma: "mlx5_0".to_owned(),
                    model: "MT4119".to_owned(),
                    board: "MT_0000000008".to_owned(),
                    firmware: "16.35.4030".to_owned(),
                    ports: vec![Port {
                        link_layer: LinkLayer::InfiniBand,
                        state: PortState::Active,
                        rate: "100 Gb/sec (4X EDR)".to_owned(),
                        netdev: Some(Netdev { name: "ibs5f0".to_owned(), altnames: vec!["ib0".to_owned()] }),
                    }],
                })
                .into_iter()
                .collect(),
        }
    }
}

impl Profile {
    /// The profile of this name that comes with the product.
    pub fn builtin(name: &str) -> Option<Self> {
        [Self::default()].into_iter().find(|profile| profile.name == name)
    }

    /// The interfaces of all ports.
    pub fn netdevs(&self) -> impl Iterator<Item = &Netdev> {
        self.ports().filter_map(|port| port.netdev.as_ref())
    }

    fn ports(&self) -> impl Iterator<Item = &Port> {
        self.hcas.iter().flat_map(|hca| &hca.ports)
    }

    /// Whether a machine could have this. Names become file names, so this also keeps them in the tree.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let altnames = self.netdevs().flat_map(|netdev| &netdev.altnames);
        self.distinct("netdev", 15, self.netdevs().map(|netdev| &netdev.name).chain(altnames))?;
        self.distinct("rdma", 63, self.hcas.iter().map(|hca| &hca.rdma))?;
        let places: Vec<String> = self.hcas.iter().map(|hca| hca.pci.to_string()).collect();
        self.distinct("pci", usize::MAX, places.iter())?;
        for hca in &self.hcas {
            self.word("driver", 63, &hca.driver)?;
        }
        Ok(())
    }

    fn distinct<'a>(
        &self,
        field: &'static str,
        most: usize,
        names: impl Iterator<Item = &'a String>,
    ) -> Result<(), Error> {
        let mut seen = BTreeSet::new();
        for name in names {
            self.word(field, most, name)?;
            if !seen.insert(name) {
                return Err(self.wrong(field, name));
            }
        }
        Ok(())
    }

    fn word(&self, field: &'static str, most: usize, text: &str) -> Result<(), Error> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte);
        if text.is_empty() || text.len() > most || text.starts_with('.') || !text.bytes().all(plain) {
            return Err(self.wrong(field, text));
        }
        Ok(())
    }

    fn wrong(&self, field: &'static str, text: &str) -> Error {
        Error::Profile { profile: self.name.clone(), field, text: text.to_owned() }
    }
}

#[cfg(test)]
mod tests;
