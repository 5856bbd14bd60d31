//! Ports as sysfs shows them. Blocking.

use ferroband_kernel::{
    Hardware, Root,
    sysfs::{infiniband, pci},
};
use ferroband_model::{Guid, PKey, PciAddress};
use std::collections::BTreeMap;

/// A port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedRdmaPort {
    /// Its function.
    pub pci: PciAddress,
    /// Its GUID.
    pub guid: Option<Guid>,
    /// Its table.
    pub pkeys: Vec<PKey>,
}

/// The first port of a function, where the host can see it: a device that is in a pod's namespace it cannot.
pub fn read_function_port(root: &Root, function: PciAddress) -> Option<ObservedRdmaPort> {
    let names = infiniband::device_names_of_function(root, function).ok()?;
    let device = infiniband::device(root, names.first()?).ok()??;
    let port = device.ports.first()?;
    Some(ObservedRdmaPort { pci: function, guid: port.guid, pkeys: port.pkeys.clone() })
}

/// The port of the adapter whose IPoIB interface is called `parent`.
pub fn read_parent_port(hardware: &dyn Hardware, parent: &str) -> Option<ObservedRdmaPort> {
    let name = hardware.ipoib_parent(parent).ok()?.name;
    let devices = infiniband::devices(hardware.root()).ok()?;
    let device = devices.into_iter().find(|device| device.netdevs.contains(&name))?;
    let port = device.ports.first()?;
    Some(ObservedRdmaPort { pci: device.pci?, guid: port.guid, pkeys: port.pkeys.clone() })
}

/// The virtual functions of the node with the GUIDs that they show, which may be zeros, and those whose RDMA device the host
/// cannot see.
pub fn list_function_guids(root: &Root) -> Option<BTreeMap<PciAddress, Option<Guid>>> {
    let mut functions: BTreeMap<PciAddress, Option<Guid>> = pci::functions(root)
        .ok()?
        .into_iter()
        .filter(|function| function.physical_function.is_some())
        .map(|function| (function.address, None))
        .collect();
    for device in infiniband::devices(root).ok()? {
        let guid = device.ports.first().and_then(|port| port.guid);
        if let Some(known) = device.pci.and_then(|pci| functions.get_mut(&pci)) {
            *known = Some(guid.unwrap_or(Guid::new(0)));
        }
    }
    Some(functions)
}
