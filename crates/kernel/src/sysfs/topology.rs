//! Location of PCI functions in the PCIe tree, and distances between them.

use super::attribute;
use crate::{Error, Root};
use ferroband_model::PciAddress;
use std::path::Path;

/// The path of a function in the PCIe tree: the root complex, the bridges and the function itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciLocation {
    /// The kernel's name of the root complex, such as `pci0000:80`.
    pub root_complex: String,
    /// Bridges between the root complex and the function, starting at the root port.
    pub bridges: Vec<PciAddress>,
    pub address: PciAddress,
    /// NUMA node, if the firmware reports it.
    pub numa: Option<u32>,
}

/// What the path between two functions crosses. A smaller value is nearer. The names in parentheses are those of
/// `nvidia-smi topo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Proximity {
    /// The path crosses at most one switch (`PIX`).
    Switch,
    /// The path crosses several switches, but not the root complex (`PXB`).
    Bridges,
    /// The path crosses one root complex (`PHB`).
    RootComplex,
    /// The path connects two root complexes of one NUMA node (`NODE`).
    NumaNode,
    /// The path crosses the link between NUMA nodes, or the NUMA nodes are unknown (`SYS`).
    System,
}

/// Distance between two functions; a smaller value is nearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Distance {
    pub proximity: Proximity,
    /// Number of bridges that only one of the two paths contains.
    pub hops: usize,
}

/// The location of the PCI function at `address`; `None` if it does not exist.
pub fn locate(root: &Root, address: PciAddress) -> Result<Option<PciLocation>, Error> {
    let directory = root.sys("bus/pci/devices").join(address.to_string());
    let Ok(path) = directory.canonicalize() else { return Ok(None) };
    let numa =
        attribute::read_number(&directory.join("numa_node"))?.and_then(|node| u32::try_from(node).ok());
    Ok(location_from_path(&path, numa))
}

/// Parses the resolved sysfs path of a function, `…/devices/pci0000:80/0000:80:02.0/0000:86:00.0`.
fn location_from_path(path: &Path, numa: Option<u32>) -> Option<PciLocation> {
    let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
    let top = parts.iter().rposition(|part| part.starts_with("pci") && part.contains(':'))?;
    let mut bridges: Vec<PciAddress> = parts[top + 1..].iter().map_while(|part| part.parse().ok()).collect();
    let address = bridges.pop()?;
    Some(PciLocation { root_complex: parts[top].to_owned(), bridges, address, numa })
}

impl PciLocation {
    /// Bridges above both functions, starting at the root port.
    pub fn common_bridges<'a>(&'a self, other: &'a Self) -> &'a [PciAddress] {
        if self.root_complex != other.root_complex {
            return &[];
        }
        let same = self.bridges.iter().zip(&other.bridges).take_while(|(one, two)| one == two).count();
        &self.bridges[..same]
    }

    /// Compares the paths of the two functions and, on different root complexes, their NUMA nodes.
    pub fn distance(&self, other: &Self) -> Distance {
        let common = self.common_bridges(other).len();
        let below = [self.bridges.len() - common, other.bridges.len() - common];
        let proximity = match (self.root_complex == other.root_complex, common) {
            // Below the last common bridge, each path has at most one more bridge: a downstream port of the shared
            // switch.
            (true, 1..) if below.iter().all(|bridges| *bridges <= 1) => Proximity::Switch,
            (true, 1..) => Proximity::Bridges,
            (true, 0) => Proximity::RootComplex,
            (false, _) if self.numa.is_some() && self.numa == other.numa => Proximity::NumaNode,
            (false, _) => Proximity::System,
        };
        Distance { proximity, hops: below.iter().sum() }
    }
}

#[cfg(test)]
mod tests;
