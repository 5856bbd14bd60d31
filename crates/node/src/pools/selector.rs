//! Choosing functions.

use super::PfVfRange;
use crate::discover::{Inventory, InventoryFunction};

/// What a function must be to be chosen. An empty list asks for nothing; within a list any entry will do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceSelector {
    /// Vendors: `15b3`.
    pub vendors: Vec<String>,
    /// Devices: `1018`.
    pub devices: Vec<String>,
    /// Drivers: `mlx5_core`.
    pub drivers: Vec<String>,
    /// PCI addresses.
    pub pci_addresses: Vec<String>,
    /// Indexes in the firmware's tables.
    pub acpi_indexes: Vec<String>,
    /// Interfaces of physical functions, with ranges of virtual ones.
    pub pf_names: Option<Vec<PfVfRange>>,
    /// Addresses of physical functions, with ranges of virtual ones.
    pub root_devices: Option<Vec<PfVfRange>>,
    /// What the interface speaks: `infiniband`.
    pub link_types: Vec<String>,
    /// The first P_Key.
    pub pkeys: Vec<String>,
    /// Interfaces of the function itself.
    pub if_names: Vec<String>,
    /// It must be an RDMA device, which containers get.
    pub rdma: bool,
    /// Containers get the files of vhost-net, too.
    pub vhost_net: bool,
}

impl DeviceSelector {
    /// The first field that keeps `function` out; nothing when it is chosen. The order is upstream's.
    pub fn rejecting_field(
        &self,
        function: &InventoryFunction,
        inventory: &Inventory,
    ) -> Option<&'static str> {
        let pf = function.pf.as_deref().and_then(|pf| inventory.function(pf));
        let pf_netdev = pf.and_then(|pf| pf.netdevs.first());
        let link = function.netdevs.first().or(pf_netdev).and_then(|netdev| netdev.link_type.as_deref());
        let any = |list: &[String], value: Option<&str>| list.is_empty() || contains_ignore_case(list, value);
        let ranged = |list: &Option<Vec<PfVfRange>>, name: Option<&str>| {
            let Some(list) = list else { return true };
            name.is_some_and(|name| list.iter().any(|one| one.matches(name, function.vf_index)))
        };
        let own_name = function.netdevs.iter().any(|netdev| self.if_names.contains(&netdev.name));
        let checks = [
            ("vendors", any(&self.vendors, Some(&function.vendor))),
            ("devices", any(&self.devices, Some(&function.device))),
            ("drivers", any(&self.drivers, function.driver.as_deref())),
            ("pciAddresses", any(&self.pci_addresses, Some(&function.pci))),
            ("acpiIndexes", any(&self.acpi_indexes, function.acpi_index.as_deref())),
            ("pfNames", ranged(&self.pf_names, pf_netdev.map(|netdev| netdev.name.as_str()))),
            ("rootDevices", ranged(&self.root_devices, function.pf.as_deref())),
            ("linkTypes", any(&self.link_types, link)),
            ("pKeys", self.pkeys.is_empty() || self.has_pkey(function, link)),
            ("ifNames", self.if_names.is_empty() || own_name),
            ("isRdma", !self.rdma || is_rdma(function, pf, inventory)),
        ];
        checks.into_iter().find(|(_, passed)| !passed).map(|(field, _)| field)
    }

    fn has_pkey(&self, function: &InventoryFunction, link: Option<&str>) -> bool {
        let Some(table) = function.first_pkey.as_deref() else { return false };
        link == Some("infiniband") && self.pkeys.iter().any(|key| pkey_matches(key, table))
    }
}

fn contains_ignore_case(list: &[String], value: Option<&str>) -> bool {
    value.is_some_and(|value| list.iter().any(|one| one.eq_ignore_ascii_case(value)))
}

/// Written in full, a key is compared as it is written, membership included. A short one, which upstream never
/// matches though its documentation uses it, means the partition, whatever the membership.
fn pkey_matches(asked: &str, table: &str) -> bool {
    let number = |text: &str| u16::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    if asked.eq_ignore_ascii_case(table) {
        return true;
    }
    let short = asked.trim_start_matches("0x").len() < 4;
    match (number(asked), number(table)) {
        (Some(asked), Some(table)) => short && asked & 0x7fff == table & 0x7fff,
        _ => false,
    }
}

/// In exclusive mode the RDMA device of a virtual function that a pod has is out of sight, and the physical
/// function tells what it is.
fn is_rdma(function: &InventoryFunction, pf: Option<&InventoryFunction>, inventory: &Inventory) -> bool {
    let away = || inventory.exclusive == Some(true) && pf.is_some_and(|pf| !pf.rdma.is_empty());
    !function.rdma.is_empty() || away()
}
