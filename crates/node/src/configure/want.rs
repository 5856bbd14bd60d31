//! What a node state asks for, read once and checked.

use ferroband_api::sriov::{InterfaceSpec, SriovNetworkNodeStateSpec, VfGroup};
use ferroband_kernel::NetnsMode;
use ferroband_model::{Fault, FaultCode, LinkLayer, PciAddress};
use std::{collections::BTreeMap, ops::RangeInclusive};

/// What an adapter shall be like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredAdapter {
    /// How many virtual functions it shall have, at least.
    pub vf_count: u16,
    /// The least MTU of its interface.
    pub mtu: Option<u32>,
    /// What it shall speak.
    pub link_layer: Option<LinkLayer>,
    /// Whether somebody else makes its functions.
    pub externally_managed: bool,
    /// What the functions are for.
    pub groups: Vec<DesiredVfGroup>,
}

/// Functions of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredVfGroup {
    /// The resource, without prefix.
    pub resource: String,
    /// Which.
    pub vf_range: RangeInclusive<u32>,
    /// Whether they are handed to user space, by vfio-pci.
    pub vfio: bool,
    /// Whether their RDMA devices go with them.
    pub rdma: bool,
    /// The MTU of their interfaces.
    pub mtu: Option<u32>,
    /// Whether `/dev/vhost-net` goes with them.
    pub vhost_net: bool,
    /// Whether the kubelet is not told their NUMA nodes.
    pub exclude_topology: bool,
    /// The policy they come from.
    pub policy: String,
}

/// All that is wanted of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DesiredNodeConfig {
    /// The adapters.
    pub adapters: BTreeMap<PciAddress, DesiredAdapter>,
    /// How RDMA devices and namespaces shall go together.
    pub rdma_mode: Option<NetnsMode>,
    /// Whether the node may be rebooted.
    pub allow_reboot: bool,
    /// Whether functions may be changed under the pods that hold them.
    pub skip_drain: bool,
    /// Whether the firmware is left alone.
    pub skip_firmware: bool,
    /// What cannot be read of it.
    pub faults: Vec<Fault>,
}

impl DesiredNodeConfig {
    /// What `spec` says.
    pub fn from_spec(spec: &SriovNetworkNodeStateSpec) -> Self {
        let mut wanted = Self::default();
        for interface in &spec.interfaces {
            match adapter(interface) {
                Ok((address, want)) => drop(wanted.adapters.insert(address, want)),
                Err(cause) => wanted.faults.push(Fault::new(
                    FaultCode::InvalidConfig,
                    format!("adapter {}", interface.pci_address),
                    cause,
                    "the node state is written by ferroband cluster; remove what was edited by hand",
                )),
            }
        }
        if let Some(system) = &spec.system {
            wanted.rdma_mode = match system.rdma_mode.as_deref() {
                Some("exclusive") => Some(NetnsMode::Exclusive),
                Some("shared") => Some(NetnsMode::Shared),
                _ => None,
            };
            wanted.allow_reboot = system.allow_reboot == Some(true);
            wanted.skip_drain = system.disable_drain == Some(true);
            wanted.skip_firmware = system.disable_plugins.iter().any(|name| name == "mellanox");
        }
        wanted
    }
}

fn adapter(spec: &InterfaceSpec) -> Result<(PciAddress, DesiredAdapter), String> {
    let address = spec.pci_address.parse().map_err(|e| format!("pciAddress: {e}"))?;
    let count = u16::try_from(spec.num_vfs.unwrap_or_default()).map_err(|_| "numVfs: not 0 to 65535")?;
    let link = match spec.link_type.as_deref().unwrap_or_default().to_lowercase().as_str() {
        "" => None,
        "ib" => Some(LinkLayer::InfiniBand),
        "eth" => Some(LinkLayer::Ethernet),
        other => return Err(format!("linkType: `{other}` is neither eth nor ib")),
    };
    let groups = spec.vf_groups.iter().map(group).collect::<Result<_, _>>()?;
    let external = spec.externally_managed == Some(true);
    Ok((
        address,
        DesiredAdapter {
            vf_count: count,
            mtu: mtu(spec.mtu)?,
            link_layer: link,
            externally_managed: external,
            groups,
        },
    ))
}

fn group(spec: &VfGroup) -> Result<DesiredVfGroup, String> {
    let range = spec.vf_range.as_deref().unwrap_or_default();
    let number =
        |text: &str| text.parse::<u32>().map_err(|_| format!("vfRange: `{range}` is not FIRST-LAST"));
    let (first, last) =
        range.split_once('-').ok_or_else(|| format!("vfRange: `{range}` is not FIRST-LAST"))?;
    Ok(DesiredVfGroup {
        resource: spec.resource_name.clone().unwrap_or_default(),
        vf_range: number(first)?..=number(last)?,
        vfio: spec.device_type.as_deref() == Some("vfio-pci"),
        rdma: spec.is_rdma == Some(true),
        mtu: mtu(spec.mtu)?,
        vhost_net: spec.need_vhost_net == Some(true),
        exclude_topology: spec.exclude_topology == Some(true),
        policy: spec.policy_name.clone().unwrap_or_default(),
    })
}

fn mtu(mtu: Option<i64>) -> Result<Option<u32>, String> {
    mtu.map(|mtu| u32::try_from(mtu).map_err(|_| format!("mtu: {mtu}"))).transpose()
}
