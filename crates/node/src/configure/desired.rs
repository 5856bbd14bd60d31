//! The desired configuration, parsed from the SriovNetworkNodeState spec.

use ferroband_api::sriov::{InterfaceSpec, SriovNetworkNodeStateSpec, VfGroup};
use ferroband_kernel::NetnsMode;
use ferroband_model::{Fault, FaultCode, LinkLayer, PciAddress};
use std::{collections::BTreeMap, ops::RangeInclusive};

/// Desired configuration of an adapter, merged from the policies that select it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredAdapter {
    /// Minimum number of virtual functions. A higher existing number is kept.
    pub vf_count: u16,
    /// Minimum MTU of the adapter's interface. A higher existing MTU is kept.
    pub mtu: Option<u32>,
    pub link_layer: Option<LinkLayer>,
    /// The administrator creates the virtual functions and sets the MTU by other means. Ferroband only configures
    /// the functions.
    pub externally_managed: bool,
    pub groups: Vec<DesiredVfGroup>,
}

impl DesiredAdapter {
    /// The group to which the virtual function belongs; `None` if no policy selects it.
    pub fn group_of(&self, index: u32) -> Option<&DesiredVfGroup> {
        self.groups.iter().find(|group| group.vf_range.contains(&index))
    }
}

/// A range of virtual functions that provide one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredVfGroup {
    /// Resource name without prefix.
    pub resource: String,
    /// Indexes of the virtual functions on the adapter.
    pub vf_range: RangeInclusive<u32>,
    /// Bind the functions to vfio-pci instead of the kernel's network driver.
    pub vfio: bool,
    /// Pass the RDMA devices of the functions to containers.
    pub rdma: bool,
    /// MTU of the functions' interfaces; not changed if absent.
    pub mtu: Option<u32>,
    /// Pass `/dev/vhost-net` to containers.
    pub vhost_net: bool,
    /// Do not report NUMA nodes to the kubelet.
    pub exclude_topology: bool,
    /// Name of the SriovNetworkNodePolicy, for messages.
    pub policy: String,
}

/// Desired configuration of this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DesiredNodeConfig {
    pub adapters: BTreeMap<PciAddress, DesiredAdapter>,
    /// RDMA namespace mode; `None` if the spec does not set it.
    pub rdma_mode: Option<NetnsMode>,
    pub allow_reboot: bool,
    /// Change functions without draining the pods that hold them.
    pub skip_drain: bool,
    /// Do not change firmware settings, because `disablePlugins` contains `mellanox`.
    pub skip_firmware: bool,
    /// One fault for each adapter in the spec that cannot be parsed. Such an adapter is not in `adapters`.
    pub faults: Vec<Fault>,
}

impl DesiredNodeConfig {
    /// Parses `spec`. Errors in it become `faults`.
    pub fn from_spec(spec: &SriovNetworkNodeStateSpec) -> Self {
        let mut config = Self::default();
        for interface in &spec.interfaces {
            match parse_adapter(interface) {
                Ok((address, adapter)) => drop(config.adapters.insert(address, adapter)),
                Err(cause) => config.faults.push(Fault::new(
                    FaultCode::InvalidConfig,
                    format!("adapter {}", interface.pci_address),
                    cause,
                    "revert manual edits of the SriovNetworkNodeState, which `ferroband cluster` writes",
                )),
            }
        }
        if let Some(system) = &spec.system {
            config.rdma_mode = match system.rdma_mode.as_deref() {
                Some("exclusive") => Some(NetnsMode::Exclusive),
                Some("shared") => Some(NetnsMode::Shared),
                _ => None,
            };
            config.allow_reboot = system.allow_reboot == Some(true);
            config.skip_drain = system.disable_drain == Some(true);
            config.skip_firmware = system.disable_plugins.iter().any(|name| name == "mellanox");
        }
        config
    }
}

fn parse_adapter(spec: &InterfaceSpec) -> Result<(PciAddress, DesiredAdapter), String> {
    let address = spec.pci_address.parse().map_err(|e| format!("pciAddress: {e}"))?;
    let vf_count =
        u16::try_from(spec.num_vfs.unwrap_or_default()).map_err(|_| "numVfs: must be 0 to 65535")?;
    let link_layer = match spec.link_type.as_deref().unwrap_or_default().to_lowercase().as_str() {
        "" => None,
        "ib" => Some(LinkLayer::InfiniBand),
        "eth" => Some(LinkLayer::Ethernet),
        other => return Err(format!("linkType: `{other}` is neither eth nor ib")),
    };
    let groups = spec.vf_groups.iter().map(parse_group).collect::<Result<_, _>>()?;
    let externally_managed = spec.externally_managed == Some(true);
    Ok((
        address,
        DesiredAdapter { vf_count, mtu: parse_mtu(spec.mtu)?, link_layer, externally_managed, groups },
    ))
}

fn parse_group(spec: &VfGroup) -> Result<DesiredVfGroup, String> {
    let range = spec.vf_range.as_deref().unwrap_or_default();
    let number =
        |text: &str| text.parse::<u32>().map_err(|_| format!("vfRange: `{range}` must be FIRST-LAST"));
    let (first, last) =
        range.split_once('-').ok_or_else(|| format!("vfRange: `{range}` must be FIRST-LAST"))?;
    Ok(DesiredVfGroup {
        resource: spec.resource_name.clone().unwrap_or_default(),
        vf_range: number(first)?..=number(last)?,
        vfio: spec.device_type.as_deref() == Some("vfio-pci"),
        rdma: spec.is_rdma == Some(true),
        mtu: parse_mtu(spec.mtu)?,
        vhost_net: spec.need_vhost_net == Some(true),
        exclude_topology: spec.exclude_topology == Some(true),
        policy: spec.policy_name.clone().unwrap_or_default(),
    })
}

fn parse_mtu(mtu: Option<i64>) -> Result<Option<u32>, String> {
    mtu.map(|mtu| u32::try_from(mtu).map_err(|_| format!("mtu: {mtu} is not 0 to 4294967295"))).transpose()
}
