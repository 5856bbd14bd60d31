//! Reads RDMA ports from sysfs. All functions block.

use ferroband_kernel::{
    Hardware, Root,
    sysfs::{infiniband, pci},
};
use ferroband_model::{Guid, PKey, PciAddress};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedRdmaPort {
    pub pci: PciAddress,
    pub guid: Option<Guid>,
    /// The port's P_Key table, as the kernel shows it in sysfs.
    pub pkeys: Vec<PKey>,
}

/// Reads the first port of a function. Returns `None` if the function's RDMA device is in a pod's network
/// namespace.
pub fn read_function_port(root: &Root, function: PciAddress) -> Option<ObservedRdmaPort> {
    let names = infiniband::device_names_of_function(root, function).ok()?;
    let device = infiniband::device(root, names.first()?).ok()??;
    let port = device.ports.first()?;
    Some(ObservedRdmaPort { pci: function, guid: port.guid, pkeys: port.pkeys.clone() })
}

/// Reads the port of the adapter that has the IPoIB interface `parent`.
pub fn read_parent_port(hardware: &dyn Hardware, parent: &str) -> Option<ObservedRdmaPort> {
    let name = hardware.ipoib_parent(parent).ok()?.name;
    let devices = infiniband::devices(hardware.root()).ok()?;
    let device = devices.into_iter().find(|device| device.netdevs.contains(&name))?;
    let port = device.ports.first()?;
    Some(ObservedRdmaPort { pci: device.pci?, guid: port.guid, pkeys: port.pkeys.clone() })
}

/// Lists the node's virtual functions with their GUIDs, which may be zero. The GUID is `None` if the host
/// cannot see or read the function's RDMA device. Returns `None` if sysfs cannot be read.
pub fn list_function_guids(root: &Root) -> Option<BTreeMap<PciAddress, Option<Guid>>> {
    let mut functions: BTreeMap<PciAddress, Option<Guid>> = pci::functions(root)
        .ok()?
        .into_iter()
        .filter(|function| function.physical_function.is_some())
        .map(|function| (function.address, None))
        .collect();
    // The GUID of a device that cannot be read is unknown, not zero.
    for device in infiniband::devices(root).ok()?.into_iter().filter(|device| device.error.is_none()) {
        let guid = device.ports.first().and_then(|port| port.guid);
        if let Some(known) = device.pci.and_then(|pci| functions.get_mut(&pci)) {
            *known = Some(guid.unwrap_or(Guid::new(0)));
        }
    }
    Some(functions)
}
