//! Where functions are on the PCIe tree, and how far from each other.

use super::attribute;
use crate::{Error, Root};
use ferroband_model::PciAddress;
use std::path::Path;

/// The place of a function: the root complex, the bridges below it, and the function itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciLocation {
    /// The root complex as the kernel calls it: `pci0000:80`.
    pub root_complex: String,
    /// The bridges between it and the function, from the root port down.
    pub bridges: Vec<PciAddress>,
    /// The function.
    pub address: PciAddress,
    /// The NUMA node, where the firmware says.
    pub numa: Option<u32>,
}

/// What lies between two functions; nearer ones are less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Proximity {
    /// One switch at most (`PIX` of nvidia-smi).
    Switch,
    /// Several switches, but not the root complex (`PXB`).
    Bridges,
    /// The root complex (`PHB`).
    RootComplex,
    /// Root complexes of one NUMA node (`NODE`).
    NumaNode,
    /// The link between NUMA nodes, or nobody knows (`SYS`).
    System,
}

/// How far two functions are from each other; nearer ones are less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Distance {
    /// What lies between.
    pub proximity: Proximity,
    /// How many bridges a packet passes below the last common one.
    pub hops: usize,
}

/// Where the function is; nothing when it is not there.
pub fn locate(root: &Root, address: PciAddress) -> Result<Option<PciLocation>, Error> {
    let directory = root.sys("bus/pci/devices").join(address.to_string());
    let Ok(path) = directory.canonicalize() else { return Ok(None) };
    let numa =
        attribute::read_number(&directory.join("numa_node"))?.and_then(|node| u32::try_from(node).ok());
    Ok(location_from_path(&path, numa))
}

/// The place that a path of `devices` spells.
fn location_from_path(path: &Path, numa: Option<u32>) -> Option<PciLocation> {
    let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
    let top = parts.iter().rposition(|part| part.starts_with("pci") && part.contains(':'))?;
    let mut bridges: Vec<PciAddress> = parts[top + 1..].iter().map_while(|part| part.parse().ok()).collect();
    let address = bridges.pop()?;
    Some(PciLocation { root_complex: parts[top].to_owned(), bridges, address, numa })
}

impl PciLocation {
    /// The bridges that both are below.
    pub fn common_bridges<'a>(&'a self, other: &'a Self) -> &'a [PciAddress] {
        if self.root_complex != other.root_complex {
            return &[];
        }
        let same = self.bridges.iter().zip(&other.bridges).take_while(|(one, two)| one == two).count();
        &self.bridges[..same]
    }

    /// How far the other one is.
    pub fn distance(&self, other: &Self) -> Distance {
        let common = self.common_bridges(other).len();
        let below = [self.bridges.len() - common, other.bridges.len() - common];
        let proximity = match (self.root_complex == other.root_complex, common) {
            // One downstream port each: that of the switch itself.
            (true, 1..) if below.iter().all(|bridges| *bridges <= 1) => Proximity::Switch,
            (true, 1..) => Proximity::Bridges,
            (true, 0) => Proximity::RootComplex,
            (false, _) if self.numa.is_some() && self.numa == other.numa => Proximity::NumaNode,
            (false, _) => Proximity::System,
        };
        Distance { proximity, hops: below.iter().sum() }
    }
}
