//! Reads the current state of the network adapters of this node and their virtual functions.

use ferroband_api::sriov::{InterfaceStatus, VirtualFunction};
use ferroband_kernel::{
    Error, Hardware, Link, rtnetlink,
    sysfs::{
        infiniband::{self, SysfsRdmaDevice},
        net,
        pci::{self, PciFunction},
    },
};
use ferroband_model::{Guid, LinkLayer, PciAddress};
use std::collections::BTreeMap;

/// A physical function of a network controller.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedAdapter {
    pub pci: PciAddress,
    pub vendor: u16,
    pub link_layer: Option<LinkLayer>,
    /// Node GUID of the RDMA device; `None` if there is no RDMA device or the GUID is not set.
    pub guid: Option<Guid>,
    /// Maximum number of virtual functions (`sriov_totalvfs`).
    pub total_vfs: u16,
    pub interface: Option<AdapterInterface>,
    /// Virtual functions, sorted by index.
    pub vfs: Vec<ObservedFunction>,
    /// Why the kernel cannot read the RDMA device; `None` if it can.
    pub error: Option<String>,
    /// State of this adapter in the format of the SriovNetworkNodeState status.
    pub status: InterfaceStatus,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterInterface {
    pub index: u32,
    pub mtu: u32,
    pub up: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedFunction {
    pub pci: PciAddress,
    pub index: u32,
    pub driver: Option<String>,
    /// Node GUID of the RDMA device; `None` if the device is in another network namespace.
    pub guid: Option<Guid>,
    /// GUID and link state assigned through the adapter, if the adapter's interface reports them.
    pub assigned: Option<(Option<Guid>, Option<rtnetlink::VfLinkState>)>,
    /// Name and MTU of the interface; `None` if the host network namespace has no interface of the function.
    pub interface: Option<(String, u32)>,
    /// Whether the function has an IOMMU group, without which vfio-pci cannot bind it.
    pub has_iommu_group: bool,
    /// Whether the pod that holds the function requested its current GUID. The kernel does not know that.
    pub guid_requested: bool,
    /// Why the kernel cannot read the RDMA device; `None` if it can.
    pub error: Option<String>,
}

impl ObservedFunction {
    /// The GUID of the function; `None` if it is not set. While the RDMA device is in a pod, only the GUID assigned
    /// through the adapter is visible.
    pub fn current_guid(&self) -> Option<Guid> {
        let assigned = self.assigned.and_then(|(guid, _)| guid);
        self.guid.or(assigned).filter(|guid| !guid.is_unset())
    }
}

/// Reads the state of all physical functions of network controllers.
pub fn observe_adapters(hardware: &dyn Hardware) -> Result<Vec<ObservedAdapter>, Error> {
    let root = hardware.root();
    let functions = pci::functions(root)?;
    let devices: BTreeMap<PciAddress, SysfsRdmaDevice> =
        infiniband::devices(root)?.into_iter().filter_map(|device| Some((device.pci?, device))).collect();
    let by_address: BTreeMap<PciAddress, &PciFunction> = functions.iter().map(|f| (f.address, f)).collect();
    // PCI class 02 are network controllers, including InfiniBand.
    let adapters = functions.iter().filter(|f| f.class >> 16 == 0x02 && f.physical_function.is_none());
    adapters.map(|function| observe_adapter(hardware, function, &by_address, &devices)).collect()
}

fn observe_adapter(
    hardware: &dyn Hardware,
    function: &PciFunction,
    functions: &BTreeMap<PciAddress, &PciFunction>,
    devices: &BTreeMap<PciAddress, SysfsRdmaDevice>,
) -> Result<ObservedAdapter, Error> {
    let root = hardware.root();
    // IPoIB child interfaces belong to the same function. They have a parent, so the main interface is sorted
    // first.
    let mut links = hardware.interfaces(function.address, None)?;
    links.sort_by_key(|link| link.parent.is_some());
    let link = links.into_iter().next();
    let device = devices.get(&function.address);
    let link_layer =
        device.and_then(|device| device.ports.first()?.link_layer).or(match function.class >> 8 {
            0x0207 => Some(LinkLayer::InfiniBand),
            0x0200 => Some(LinkLayer::Ethernet),
            _ => None,
        });
    let assigned = match (&link, function.virtual_functions.is_empty()) {
        // If the query fails, the GUIDs and link states of the virtual functions are unknown. Changes that
        // need them fail later with their own error.
        (Some(_), false) => hardware.vfs(function.address).unwrap_or_default(),
        _ => Vec::new(),
    };
    let mut vfs = Vec::new();
    let mut vf_statuses = Vec::new();
    for (index, address) in (0..).zip(&function.virtual_functions) {
        let Some(function) = functions.get(address) else { continue };
        let (vf, vf_status) = observe_vf(hardware, function, index, devices.get(address), &assigned)?;
        vfs.push(vf);
        vf_statuses.push(vf_status);
    }
    let speed = link.as_ref().and_then(|link| net::netdev(root, &link.name).ok()??.speed);
    let status = InterfaceStatus {
        pci_address: function.address.to_string(),
        name: link.as_ref().map(|link| link.name.clone()),
        mac: link.as_ref().map(hardware_address).filter(|address| !address.is_empty()),
        driver: function.driver.clone(),
        vendor: Some(format!("{:04x}", function.vendor)),
        device_id: Some(format!("{:04x}", function.device)),
        net_filter: None,
        mtu: link.as_ref().map(|link| i64::from(link.mtu)),
        num_vfs: Some(i64::from(function.vfs)),
        total_vfs: Some(i64::from(function.total_vfs)),
        link_speed: speed.map(|speed| format!("{speed} Mb/s")),
        link_type: link_layer.map(|link_layer| match link_layer {
            LinkLayer::InfiniBand => "IB".to_owned(),
            LinkLayer::Ethernet => "ETH".to_owned(),
        }),
        link_admin_state: link.as_ref().map(|link| if link.up { "up" } else { "down" }.to_owned()),
        e_switch_mode: None,
        externally_managed: None,
        vfs: vf_statuses,
        alt_names: link.as_ref().map(|link| link.altnames.clone()).unwrap_or_default(),
    };
    Ok(ObservedAdapter {
        pci: function.address,
        vendor: function.vendor,
        link_layer,
        guid: device.and_then(|device| device.node_guid).filter(|guid| !guid.is_unset()),
        total_vfs: function.total_vfs,
        interface: link.map(|link| AdapterInterface { index: link.index, mtu: link.mtu, up: link.up }),
        vfs,
        error: device.and_then(|device| device.error.clone()),
        status,
    })
}

fn observe_vf(
    hardware: &dyn Hardware,
    function: &PciFunction,
    index: u32,
    device: Option<&SysfsRdmaDevice>,
    assigned: &[rtnetlink::VfInfo],
) -> Result<(ObservedFunction, VirtualFunction), Error> {
    let root = hardware.root();
    // An interface whose attributes cannot be read is treated as absent.
    let netdev = function.netdevs.first().and_then(|name| net::netdev(root, name).ok()?);
    let assigned = assigned.iter().find(|vf| vf.index == index);
    // The status shows the GUID as the kernel reports it: all zeros before it is set, all ones after a reset.
    let guid = device.and_then(|device| device.node_guid).or(assigned.and_then(|vf| vf.node_guid));
    let status = VirtualFunction {
        pci_address: function.address.to_string(),
        vf_id: i64::from(index),
        name: netdev.as_ref().map(|netdev| netdev.name.clone()),
        mac: netdev.as_ref().and_then(|netdev| netdev.address.clone()),
        driver: function.driver.clone(),
        vendor: Some(format!("{:04x}", function.vendor)),
        device_id: Some(format!("{:04x}", function.device)),
        mtu: netdev.as_ref().and_then(|netdev| netdev.mtu).map(i64::from),
        guid: guid.map(|guid| guid.to_string()),
        ..VirtualFunction::default()
    };
    let vf = ObservedFunction {
        pci: function.address,
        index,
        driver: function.driver.clone(),
        guid: device.and_then(|device| device.node_guid),
        assigned: assigned.map(|vf| (vf.node_guid, vf.link_state)),
        interface: netdev.and_then(|netdev| Some((netdev.name, netdev.mtu?))),
        has_iommu_group: pci::iommu_group(root, function.address)?.is_some(),
        guid_requested: false,
        error: device.and_then(|device| device.error.clone()),
    };
    Ok((vf, status))
}

fn hardware_address(link: &Link) -> String {
    link.address.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}
