//! Selects PCI functions by their properties.

use super::PfVfRange;
use crate::discover::{Inventory, InventoryFunction};

/// Criteria for functions, all of which must match. A list matches if at least one of its entries matches. An
/// empty `Vec` and a `None` match every function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceSelector {
    /// PCI vendor ids, for example `15b3`.
    pub vendors: Vec<String>,
    /// PCI device ids, for example `1018`.
    pub devices: Vec<String>,
    /// Kernel drivers, for example `mlx5_core`.
    pub drivers: Vec<String>,
    pub pci_addresses: Vec<String>,
    pub acpi_indexes: Vec<String>,
    /// Interface names of physical functions, with VF ranges.
    pub pf_names: Option<Vec<PfVfRange>>,
    /// PCI addresses of physical functions, with VF ranges.
    pub root_devices: Option<Vec<PfVfRange>>,
    /// Link types of the interface, for example `infiniband`.
    pub link_types: Vec<String>,
    /// P_Keys, compared with the first entry of the function's P_Key table.
    pub pkeys: Vec<String>,
    /// Interface names of the function itself.
    pub if_names: Vec<String>,
    /// The function must have an RDMA device. Containers get its device files.
    pub rdma: bool,
    /// Containers also get `/dev/vhost-net` and `/dev/net/tun`.
    pub vhost_net: bool,
}

impl DeviceSelector {
    /// Returns the first field that does not match `function`, or `None` if all match. The fields are checked in
    /// the order of the upstream plugin.
    pub fn rejecting_field(
        &self,
        function: &InventoryFunction,
        inventory: &Inventory,
    ) -> Option<&'static str> {
        let pf = function.pf.as_deref().and_then(|pf| inventory.function(pf));
        let pf_netdev = pf.and_then(|pf| pf.netdevs.first());
        let link = function.netdevs.first().or(pf_netdev).and_then(|netdev| netdev.link_type.as_deref());
        let matches_any =
            |list: &[String], value: Option<&str>| list.is_empty() || contains_ignore_case(list, value);
        let in_range = |list: &Option<Vec<PfVfRange>>, name: Option<&str>| {
            let Some(list) = list else { return true };
            name.is_some_and(|name| list.iter().any(|entry| entry.matches(name, function.vf_index)))
        };
        let own_name = function.netdevs.iter().any(|netdev| self.if_names.contains(&netdev.name));
        let checks = [
            ("vendors", matches_any(&self.vendors, Some(&function.vendor))),
            ("devices", matches_any(&self.devices, Some(&function.device))),
            ("drivers", matches_any(&self.drivers, function.driver.as_deref())),
            ("pciAddresses", matches_any(&self.pci_addresses, Some(&function.pci))),
            ("acpiIndexes", matches_any(&self.acpi_indexes, function.acpi_index.as_deref())),
            ("pfNames", in_range(&self.pf_names, pf_netdev.map(|netdev| netdev.name.as_str()))),
            ("rootDevices", in_range(&self.root_devices, function.pf.as_deref())),
            ("linkTypes", matches_any(&self.link_types, link)),
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
    value.is_some_and(|value| list.iter().any(|entry| entry.eq_ignore_ascii_case(value)))
}

/// Compares a P_Key from the configuration with one from a function's P_Key table. A key of four digits must
/// be equal, including the membership bit. A shorter key selects the partition regardless of the membership
/// bit. The upstream documentation uses such shorter keys, but the upstream plugin never matches them.
fn pkey_matches(requested: &str, table: &str) -> bool {
    let number = |text: &str| u16::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    if requested.eq_ignore_ascii_case(table) {
        return true;
    }
    let short = requested.trim_start_matches("0x").len() < 4;
    match (number(requested), number(table)) {
        (Some(requested), Some(table)) => short && requested & 0x7fff == table & 0x7fff,
        _ => false,
    }
}

/// Whether the function has an RDMA device. In exclusive mode, the RDMA device of a virtual function that a pod
/// holds is not visible on the host. Then the function counts as RDMA if its physical function has an RDMA device.
fn is_rdma(function: &InventoryFunction, pf: Option<&InventoryFunction>, inventory: &Inventory) -> bool {
    let moved_to_pod = || inventory.exclusive == Some(true) && pf.is_some_and(|pf| !pf.rdma.is_empty());
    !function.rdma.is_empty() || moved_to_pod()
}
