//! The functions on the PCI bus that matter to pods: network controllers, accelerators, and the GPUs beside them.

use super::sysfs::{link_type, read_text, sorted_names};
use ferroband_kernel::{
    Error, Root,
    sysfs::pci::{self, PciFunction},
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A function on the PCI bus.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InventoryFunction {
    /// Its address, which is what it is: `0000:86:00.0`.
    pub pci: String,
    /// What it does.
    pub class: DeviceClass,
    /// The vendor: `15b3`.
    pub vendor: String,
    /// The device: `1017`.
    pub device: String,
    /// The driver it is bound to.
    pub driver: Option<String>,
    /// The NUMA node, where the firmware tells.
    pub numa: Option<u32>,
    /// Its index in the firmware's tables.
    pub acpi_index: Option<String>,
    /// The way to it from the root complex: `pci0000:80`, then bridges.
    pub path: Vec<String>,
    /// The physical function, when it is a virtual one.
    pub pf: Option<String>,
    /// Which of the physical function's it is.
    pub vf_index: Option<usize>,
    /// Its virtual functions, by index.
    pub vfs: Vec<String>,
    /// Its interfaces in the host's network namespace.
    pub netdevs: Vec<FunctionNetdev>,
    /// Its RDMA devices in the host's RDMA namespace.
    pub rdma: Vec<String>,
    /// The first entry of its first port's P_Key table, as the kernel writes it.
    pub first_pkey: Option<String>,
    /// Its IOMMU group.
    pub iommu_group: Option<String>,
    /// Whether an interface of it carries the node's default route.
    pub default_route: bool,
}

/// What a function does, by its PCI class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DeviceClass {
    /// 0x02: a network controller.
    #[default]
    Network,
    /// 0x03: a display controller, as GPUs call themselves.
    Gpu,
    /// 0x12: an accelerator.
    Accelerator,
}

/// An interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FunctionNetdev {
    /// Its name.
    pub name: String,
    /// `ether` or `infiniband`.
    pub link_type: Option<String>,
}

impl InventoryFunction {
    /// All that matter, by address.
    pub fn list(root: &Root) -> Result<Vec<Self>, Error> {
        let functions = pci::functions(root)?;
        let mut places = BTreeMap::new();
        for function in &functions {
            for (index, vf) in function.virtual_functions.iter().enumerate() {
                places.insert(*vf, index);
            }
        }
        let routed = default_route_interfaces(root);
        let read = |function: PciFunction| {
            let class = DeviceClass::from_class_code(function.class)?;
            let index = places.get(&function.address).copied();
            Some(Self::read(root, function, class, index, &routed))
        };
        Ok(functions.into_iter().filter_map(read).collect())
    }

    fn read(
        root: &Root,
        function: PciFunction,
        class: DeviceClass,
        vf_index: Option<usize>,
        routed: &BTreeSet<String>,
    ) -> Self {
        let address = function.address.to_string();
        let at = root.sys("bus/pci/devices").join(&address);
        let rdma = sorted_names(&at.join("infiniband"));
        let first_pkey = rdma
            .first()
            .and_then(|name| read_text(&at.join("infiniband").join(name).join("ports/1/pkeys/0")));
        let netdevs: Vec<FunctionNetdev> = function
            .netdevs
            .iter()
            .map(|name| FunctionNetdev {
                name: name.clone(),
                link_type: link_type(&at.join("net").join(name)),
            })
            .collect();
        let group = at.join("iommu_group").read_link().ok();
        Self {
            class,
            vendor: format!("{:04x}", function.vendor),
            device: format!("{:04x}", function.device),
            driver: function.driver,
            numa: function.numa,
            acpi_index: read_text(&at.join("acpi_index")),
            path: pci_path(&at),
            pf: function.physical_function.map(|pf| pf.to_string()),
            vf_index,
            vfs: function.virtual_functions.iter().map(ToString::to_string).collect(),
            default_route: netdevs.iter().any(|netdev| routed.contains(&netdev.name)),
            netdevs,
            rdma,
            first_pkey,
            iommu_group: group.and_then(|path| Some(path.file_name()?.to_str()?.to_owned())),
            pci: address,
        }
    }
}

impl DeviceClass {
    /// The class code's first byte decides (PCI Code and ID Assignment Specification, 1.1).
    fn from_class_code(code: u32) -> Option<Self> {
        match code >> 16 {
            0x02 => Some(Self::Network),
            0x03 => Some(Self::Gpu),
            0x12 => Some(Self::Accelerator),
            _ => None,
        }
    }
}

/// The root complex and the bridges above a function.
fn pci_path(function: &std::path::Path) -> Vec<String> {
    let Ok(path) = function.canonicalize() else { return Vec::new() };
    let mut way: Vec<String> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    way.pop();
    let top = way.iter().position(|part| part.starts_with("pci") && part.contains(':'));
    top.map(|top| way.split_off(top)).unwrap_or_default()
}

/// The interfaces with an IPv4 default route, from `/proc/net/route`: name, destination, …, mask in the eighth column.
fn default_route_interfaces(root: &Root) -> BTreeSet<String> {
    let table = read_text(&root.proc_("net/route")).unwrap_or_default();
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.get(1) == Some(&"00000000") && row.get(7) == Some(&"00000000"))
        .map(|row| row[0].to_owned())
        .collect()
}
