//! PCI functions: physical ones, and the virtual ones that they can be split into.

use super::attribute;
use crate::{Error, Root};
use ferroband_model::PciAddress;
use std::path::PathBuf;

/// A function on the PCI bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PciFunction {
    /// Where it is.
    pub address: PciAddress,
    /// Vendor: 0x15b3.
    pub vendor: u16,
    /// Device: 0x1017.
    pub device: u16,
    /// Class, subclass and interface: 0x020700 is an InfiniBand controller.
    pub class: u32,
    /// The driver it is bound to.
    pub driver: Option<String>,
    /// The NUMA node it is on, where the firmware says.
    pub numa: Option<u32>,
    /// How many virtual functions it can have; none when it is not capable.
    pub total_vfs: u16,
    /// How many virtual functions it has.
    pub vfs: u16,
    /// Those virtual functions, in the order of their index.
    pub virtual_functions: Vec<PciAddress>,
    /// The physical function, when this is a virtual one.
    pub physical_function: Option<PciAddress>,
    /// The interfaces of this network namespace that it has.
    pub netdevs: Vec<String>,
}

/// All functions, by address.
pub fn functions(root: &Root) -> Result<Vec<PciFunction>, Error> {
    let mut functions = Vec::new();
    for name in attribute::list_names(&root.sys("bus/pci/devices"))? {
        if let Ok(address) = name.parse() {
            functions.extend(function(root, address)?);
        }
    }
    functions.sort_by_key(|function| function.address);
    Ok(functions)
}

/// One function; nothing when it is not there.
pub fn function(root: &Root, address: PciAddress) -> Result<Option<PciFunction>, Error> {
    let directory = directory(root, address);
    let at = |name: &str| directory.join(name);
    let (Some(vendor), Some(device)) =
        (attribute::read_sized(&at("vendor"))?, attribute::read_sized(&at("device"))?)
    else {
        return Ok(None);
    };
    Ok(Some(PciFunction {
        address,
        vendor,
        device,
        class: attribute::read_sized(&at("class"))?.unwrap_or_default(),
        driver: attribute::link_target(&at("driver"))?,
        // -1 says that the firmware does not tell.
        numa: attribute::read_number(&at("numa_node"))?.and_then(|node| u32::try_from(node).ok()),
        total_vfs: attribute::read_sized(&at("sriov_totalvfs"))?.unwrap_or_default(),
        vfs: attribute::read_sized(&at("sriov_numvfs"))?.unwrap_or_default(),
        virtual_functions: virtual_functions(root, address)?,
        physical_function: attribute::link_target(&at("physfn"))?.and_then(|name| name.parse().ok()),
        netdevs: netdevs(root, address)?,
    }))
}

/// The driver that the function is bound to; nothing when the function is not there.
pub fn driver(root: &Root, address: PciAddress) -> Result<Option<Option<String>>, Error> {
    let directory = directory(root, address);
    match attribute::link_target(&directory.join("driver"))? {
        Some(driver) => Ok(Some(Some(driver))),
        None => Ok(directory.exists().then_some(None)),
    }
}

/// The interfaces of this network namespace that the function has.
pub fn netdevs(root: &Root, address: PciAddress) -> Result<Vec<String>, Error> {
    attribute::list_names(&directory(root, address).join("net"))
}

/// The physical function of a virtual one, and the index of the virtual one on it.
pub fn physical_function(root: &Root, address: PciAddress) -> Result<Option<(PciAddress, u32)>, Error> {
    let physical = attribute::link_target(&directory(root, address).join("physfn"))?;
    let Some(physical) = physical.and_then(|name| name.parse().ok()) else { return Ok(None) };
    let found =
        indexed_virtual_functions(root, physical)?.into_iter().find(|(_, function)| *function == address);
    Ok(found.map(|(index, _)| (physical, index)))
}

/// The IOMMU group of the function, which is what vfio-pci hands out.
pub fn iommu_group(root: &Root, address: PciAddress) -> Result<Option<u32>, Error> {
    let group = attribute::link_target(&directory(root, address).join("iommu_group"))?;
    Ok(group.and_then(|name| name.parse().ok()))
}

fn virtual_functions(root: &Root, address: PciAddress) -> Result<Vec<PciAddress>, Error> {
    Ok(indexed_virtual_functions(root, address)?.into_iter().map(|(_, address)| address).collect())
}

/// The virtual functions with their indexes; `virtfn3` is index 3 although 2 may be missing for a moment.
fn indexed_virtual_functions(root: &Root, address: PciAddress) -> Result<Vec<(u32, PciAddress)>, Error> {
    let directory = directory(root, address);
    let mut found: Vec<(u32, PciAddress)> = Vec::new();
    for name in attribute::list_names(&directory)? {
        let Some(Ok(index)) = name.strip_prefix("virtfn").map(str::parse) else { continue };
        let target = attribute::link_target(&directory.join(&name))?;
        found.extend(target.and_then(|target| target.parse().ok()).map(|address| (index, address)));
    }
    found.sort();
    Ok(found)
}

fn directory(root: &Root, address: PciAddress) -> PathBuf {
    root.sys("bus/pci/devices").join(address.to_string())
}
