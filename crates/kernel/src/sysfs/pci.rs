//! PCI physical and virtual functions.

use super::attribute;
use crate::{Error, Root};
use ferroband_model::PciAddress;
use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PciFunction {
    pub address: PciAddress,
    /// PCI vendor ID, such as 0x15b3 (Mellanox).
    pub vendor: u16,
    /// PCI device ID, such as 0x1017 (ConnectX-5).
    pub device: u16,
    /// Class, subclass and programming interface: 0x020700 is an InfiniBand controller.
    pub class: u32,
    /// Name of the bound driver; `None` if no driver is bound.
    pub driver: Option<String>,
    /// NUMA node, if the firmware reports it.
    pub numa: Option<u32>,
    /// Maximum number of virtual functions; 0 without SR-IOV.
    pub total_vfs: u16,
    /// Current number of virtual functions.
    pub vfs: u16,
    /// Virtual functions, ordered by index.
    pub virtual_functions: Vec<PciAddress>,
    /// Physical function of this virtual function; `None` if this is not a virtual function.
    pub physical_function: Option<PciAddress>,
    /// Names of the function's interfaces in this network namespace.
    pub netdevs: Vec<String>,
}

/// All PCI functions of the host, ordered by address.
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

/// The PCI function at `address`; `None` if it does not exist.
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
        // The kernel shows -1 if the firmware does not report the NUMA node.
        numa: attribute::read_number(&at("numa_node"))?.and_then(|node| u32::try_from(node).ok()),
        total_vfs: attribute::read_sized(&at("sriov_totalvfs"))?.unwrap_or_default(),
        vfs: attribute::read_sized(&at("sriov_numvfs"))?.unwrap_or_default(),
        virtual_functions: virtual_functions(root, address)?,
        physical_function: attribute::link_target(&at("physfn"))?.and_then(|name| name.parse().ok()),
        netdevs: netdevs(root, address)?,
    }))
}

/// Name of the bound driver. The outer option is `None` if the function does not exist, the inner one if no driver
/// is bound.
pub fn driver(root: &Root, address: PciAddress) -> Result<Option<Option<String>>, Error> {
    let directory = directory(root, address);
    match attribute::link_target(&directory.join("driver"))? {
        Some(driver) => Ok(Some(Some(driver))),
        None => Ok(directory.exists().then_some(None)),
    }
}

/// Names of the function's interfaces in this network namespace.
pub fn netdevs(root: &Root, address: PciAddress) -> Result<Vec<String>, Error> {
    attribute::list_names(&directory(root, address).join("net"))
}

/// Returns the physical function of the virtual function `address`, and the index of the virtual function. Returns
/// `None` if `address` is not a virtual function.
pub fn physical_function(root: &Root, address: PciAddress) -> Result<Option<(PciAddress, u32)>, Error> {
    let physical = attribute::link_target(&directory(root, address).join("physfn"))?;
    let Some(physical) = physical.and_then(|name| name.parse().ok()) else { return Ok(None) };
    let found =
        indexed_virtual_functions(root, physical)?.into_iter().find(|(_, function)| *function == address);
    Ok(found.map(|(index, _)| (physical, index)))
}

/// IOMMU group of the function, which is the smallest unit that vfio-pci can assign. `None` without an IOMMU.
pub fn iommu_group(root: &Root, address: PciAddress) -> Result<Option<u32>, Error> {
    let group = attribute::link_target(&directory(root, address).join("iommu_group"))?;
    Ok(group.and_then(|name| name.parse().ok()))
}

fn virtual_functions(root: &Root, address: PciAddress) -> Result<Vec<PciAddress>, Error> {
    Ok(indexed_virtual_functions(root, address)?.into_iter().map(|(_, address)| address).collect())
}

/// Virtual functions with their indexes. `virtfn3` has index 3 even if `virtfn2` is missing temporarily.
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
