//! PCI functions relevant to pods: network controllers, accelerators and GPUs.

use super::sysfs::{link_type, read_text, sorted_names};
use ferroband_kernel::{
    Error, Root,
    sysfs::pci::{self, PciFunction},
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A PCI function as sysfs describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InventoryFunction {
    /// PCI address, for example `0000:86:00.0`.
    pub pci: String,
    pub class: DeviceClass,
    /// PCI vendor id in hexadecimal, for example `15b3`.
    pub vendor: String,
    /// PCI device id in hexadecimal, for example `1017`.
    pub device: String,
    pub driver: Option<String>,
    /// NUMA node; `None` if the firmware does not report it.
    pub numa: Option<u32>,
    pub acpi_index: Option<String>,
    /// Location in the PCI tree: the root complex, for example `pci0000:80`, followed by the addresses of the
    /// bridges above the function.
    pub path: Vec<String>,
    /// PCI address of the physical function; `None` unless this is a virtual function.
    pub pf: Option<String>,
    /// Index of this virtual function on its physical function; `None` unless this is a virtual function.
    pub vf_index: Option<usize>,
    /// PCI addresses of the virtual functions of this physical function, sorted by index.
    pub vfs: Vec<String>,
    /// Interfaces of the function that are in the host network namespace.
    pub netdevs: Vec<FunctionNetdev>,
    /// Names of the RDMA devices that are visible in the host network namespace.
    pub rdma: Vec<String>,
    /// First entry of the P_Key table of port 1, as the kernel prints it.
    pub first_pkey: Option<String>,
    pub iommu_group: Option<String>,
    /// Whether the node's IPv4 default route uses one of the function's interfaces.
    pub default_route: bool,
}

/// PCI base class of a function in the inventory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DeviceClass {
    /// 0x02: network controller.
    #[default]
    Network,
    /// 0x03: display controller, which includes GPUs.
    Gpu,
    /// 0x12: processing accelerator.
    Accelerator,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FunctionNetdev {
    pub name: String,
    /// `ether`, `infiniband` or the ARPHRD number of another type.
    pub link_type: Option<String>,
}

impl InventoryFunction {
    /// Lists the functions whose class is a [`DeviceClass`], sorted by PCI address.
    pub fn list(root: &Root) -> Result<Vec<Self>, Error> {
        let functions = pci::functions(root)?;
        let mut vf_indexes = BTreeMap::new();
        for function in &functions {
            for (index, vf) in function.virtual_functions.iter().enumerate() {
                vf_indexes.insert(*vf, index);
            }
        }
        let default_route = default_route_interfaces(root);
        let read = |function: PciFunction| {
            let class = DeviceClass::from_class_code(function.class)?;
            let index = vf_indexes.get(&function.address).copied();
            Some(Self::read(root, function, class, index, &default_route))
        };
        Ok(functions.into_iter().filter_map(read).collect())
    }

    fn read(
        root: &Root,
        function: PciFunction,
        class: DeviceClass,
        vf_index: Option<usize>,
        default_route: &BTreeSet<String>,
    ) -> Self {
        let address = function.address.to_string();
        let sysfs_dir = root.sys("bus/pci/devices").join(&address);
        let rdma = sorted_names(&sysfs_dir.join("infiniband"));
        let first_pkey = rdma
            .first()
            .and_then(|name| read_text(&sysfs_dir.join("infiniband").join(name).join("ports/1/pkeys/0")));
        let netdevs: Vec<FunctionNetdev> = function
            .netdevs
            .iter()
            .map(|name| FunctionNetdev {
                name: name.clone(),
                link_type: link_type(&sysfs_dir.join("net").join(name)),
            })
            .collect();
        let group = sysfs_dir.join("iommu_group").read_link().ok();
        Self {
            class,
            vendor: format!("{:04x}", function.vendor),
            device: format!("{:04x}", function.device),
            driver: function.driver,
            numa: function.numa,
            acpi_index: read_text(&sysfs_dir.join("acpi_index")),
            path: pci_path(&sysfs_dir),
            pf: function.physical_function.map(|pf| pf.to_string()),
            vf_index,
            vfs: function.virtual_functions.iter().map(ToString::to_string).collect(),
            default_route: netdevs.iter().any(|netdev| default_route.contains(&netdev.name)),
            netdevs,
            rdma,
            first_pkey,
            iommu_group: group.and_then(|path| Some(path.file_name()?.to_str()?.to_owned())),
            pci: address,
        }
    }
}

impl DeviceClass {
    /// Maps the base class in the upper byte of `code` (PCI Code and ID Assignment Specification, 1.1). Returns
    /// `None` for other classes.
    fn from_class_code(code: u32) -> Option<Self> {
        match code >> 16 {
            0x02 => Some(Self::Network),
            0x03 => Some(Self::Gpu),
            0x12 => Some(Self::Accelerator),
            _ => None,
        }
    }
}

/// Returns the root complex and the bridges above a function, from its path in sysfs.
fn pci_path(function: &std::path::Path) -> Vec<String> {
    let Ok(path) = function.canonicalize() else { return Vec::new() };
    let mut parts: Vec<String> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    parts.pop();
    let top = parts.iter().position(|part| part.starts_with("pci") && part.contains(':'));
    top.map(|top| parts.split_off(top)).unwrap_or_default()
}

/// Returns the interfaces that have an IPv4 default route. In `/proc/net/route`, the first column is the interface,
/// the second the destination and the eighth the mask.
fn default_route_interfaces(root: &Root) -> BTreeSet<String> {
    let table = read_text(&root.proc_("net/route")).unwrap_or_default();
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.get(1) == Some(&"00000000") && row.get(7) == Some(&"00000000"))
        .map(|row| row[0].to_owned())
        .collect()
}
