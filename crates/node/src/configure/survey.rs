//! What the adapters of the node are like now.

use ferroband_api::sriov::{InterfaceStatus, VirtualFunction};
use ferroband_kernel::{
    Error, Hardware, Link, NetnsMode, rtnetlink,
    sysfs::{
        infiniband::{self, SysfsRdmaDevice},
        net,
        pci::{self, PciFunction},
    },
};
use ferroband_model::{Guid, LinkLayer, PciAddress};
use std::collections::BTreeMap;

/// All adapters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservedNode {
    /// By address.
    pub adapters: Vec<ObservedAdapter>,
    /// How RDMA devices and namespaces go together; nothing on a kernel without RDMA.
    pub rdma_mode: Option<NetnsMode>,
}

/// A physical function of a network controller.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedAdapter {
    /// Where it is.
    pub pci: PciAddress,
    /// The vendor.
    pub vendor: u16,
    /// What it speaks, where that is known.
    pub link_layer: Option<LinkLayer>,
    /// Its own GUID, where it has an RDMA device.
    pub guid: Option<Guid>,
    /// How many functions it can have now.
    pub total_vfs: u16,
    /// Its interface.
    pub interface: Option<AdapterInterface>,
    /// Its virtual functions, by index.
    pub vfs: Vec<ObservedFunction>,
    /// All of this and more, as it is told.
    pub status: InterfaceStatus,
}

/// The interface of an adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterInterface {
    /// Its index.
    pub index: u32,
    /// Its MTU.
    pub mtu: u32,
    /// Whether it is up.
    pub up: bool,
}

/// A virtual function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedFunction {
    /// Where it is.
    pub pci: PciAddress,
    /// Its number.
    pub index: u32,
    /// Its driver.
    pub driver: Option<String>,
    /// The GUID of its RDMA device; nothing if that is not here.
    pub guid: Option<Guid>,
    /// The GUID that it was given, and the link state, where the adapter's interface tells.
    pub assigned: Option<(Option<Guid>, Option<rtnetlink::VfLinkState>)>,
    /// Its interface here, and that one's MTU.
    pub interface: Option<(String, u32)>,
    /// Whether it has an IOMMU group, without which vfio-pci does not take it.
    pub has_iommu_group: bool,
}

/// Look at everything.
pub fn observe_node(hardware: &dyn Hardware) -> Result<ObservedNode, Error> {
    hardware.refresh()?;
    let root = hardware.root();
    let functions = pci::functions(root)?;
    let devices: BTreeMap<PciAddress, SysfsRdmaDevice> =
        infiniband::devices(root)?.into_iter().filter_map(|device| Some((device.pci?, device))).collect();
    let by_address: BTreeMap<PciAddress, &PciFunction> = functions.iter().map(|f| (f.address, f)).collect();
    let mut adapters = Vec::new();
    // The first byte of the class: 02 is a network controller, InfiniBand included.
    for function in functions.iter().filter(|f| f.class >> 16 == 0x02 && f.physical_function.is_none()) {
        adapters.push(observe_adapter(hardware, function, &by_address, &devices)?);
    }
    // A kernel without RDMA is no failure: there is no mode then.
    let mode = hardware.rdma_netns_mode().ok();
    Ok(ObservedNode { adapters, rdma_mode: mode })
}

fn observe_adapter(
    hardware: &dyn Hardware,
    function: &PciFunction,
    functions: &BTreeMap<PciAddress, &PciFunction>,
    devices: &BTreeMap<PciAddress, SysfsRdmaDevice>,
) -> Result<ObservedAdapter, Error> {
    let root = hardware.root();
    // An IPoIB child that nobody moved is on the same function, but stands on another interface.
    let mut links = hardware.interfaces(function.address, None)?;
    links.sort_by_key(|link| link.parent.is_some());
    let link = links.into_iter().next();
    let device = devices.get(&function.address);
    let layer = device.and_then(|device| device.ports.first()?.link_layer).or(match function.class >> 8 {
        0x0207 => Some(LinkLayer::InfiniBand),
        0x0200 => Some(LinkLayer::Ethernet),
        _ => None,
    });
    let given = match (&link, function.virtual_functions.is_empty()) {
        // What cannot be asked is not known; what depends on it fails by itself, with its reason.
        (Some(_), false) => hardware.vfs(function.address).unwrap_or_default(),
        _ => Vec::new(),
    };
    let mut vfs = Vec::new();
    let mut told = Vec::new();
    for (index, address) in (0..).zip(&function.virtual_functions) {
        let Some(function) = functions.get(address) else { continue };
        let (vf, shown) = observe_vf(hardware, function, index, devices.get(address), &given)?;
        vfs.push(vf);
        told.push(shown);
    }
    let speed = link.as_ref().and_then(|link| net::netdev(root, &link.name).ok()??.speed);
    let told = InterfaceStatus {
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
        link_type: layer.map(|layer| match layer {
            LinkLayer::InfiniBand => "IB".to_owned(),
            LinkLayer::Ethernet => "ETH".to_owned(),
        }),
        link_admin_state: link.as_ref().map(|link| if link.up { "up" } else { "down" }.to_owned()),
        e_switch_mode: None,
        externally_managed: None,
        vfs: told,
        alt_names: link.as_ref().map(|link| link.altnames.clone()).unwrap_or_default(),
    };
    Ok(ObservedAdapter {
        pci: function.address,
        vendor: function.vendor,
        link_layer: layer,
        guid: device.and_then(|device| device.node_guid).filter(|guid| !guid.is_unset()),
        total_vfs: function.total_vfs,
        interface: link.map(|link| AdapterInterface { index: link.index, mtu: link.mtu, up: link.up }),
        vfs,
        status: told,
    })
}

fn observe_vf(
    hardware: &dyn Hardware,
    function: &PciFunction,
    index: u32,
    device: Option<&SysfsRdmaDevice>,
    given: &[rtnetlink::VfInfo],
) -> Result<(ObservedFunction, VirtualFunction), Error> {
    let root = hardware.root();
    let netdev = match function.netdevs.first() {
        Some(name) => net::netdev(root, name)?,
        None => None,
    };
    let given = given.iter().find(|vf| vf.index == index);
    // The kernel shows zeros before there is one; a reset leaves ones.
    let guid = device.and_then(|device| device.node_guid).or(given.and_then(|vf| vf.node_guid));
    let told = VirtualFunction {
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
        assigned: given.map(|vf| (vf.node_guid, vf.link_state)),
        interface: netdev.and_then(|netdev| Some((netdev.name, netdev.mtu?))),
        has_iommu_group: pci::iommu_group(root, function.address)?.is_some(),
    };
    Ok((vf, told))
}

fn hardware_address(link: &Link) -> String {
    link.address.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}
