//! Persistent state of simulated hardware. On a real host, the kernel and the firmware keep this state.

use crate::number_allocator::DeviceNode;
use crate::{Profile, SimPortState};
use ferroband_kernel::rtnetlink::{LinkStats, VfLinkState};
use ferroband_kernel::{NetnsId, NetnsMode};
use ferroband_model::{Guid, PKey};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// State of all adapters, in the order of the profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SimState {
    /// RDMA network namespace mode: shared or exclusive.
    pub(crate) netns_mode: NetnsMode,
    /// Counter from which unique device indexes and queue pair numbers are derived.
    pub(crate) serial: u32,
    pub(crate) adapters: Vec<SimAdapter>,
}

/// One adapter with its virtual functions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SimAdapter {
    pub(crate) plugged: bool,
    /// Port states, starting at port 1.
    pub(crate) ports: Vec<SimPortState>,
    pub(crate) function: SimFunction,
    pub(crate) vfs: Vec<SimVf>,
    /// Traffic counters at the last refresh, by the name of the host end of the veth pair.
    #[serde(rename = "seen", default)]
    pub(crate) last_traffic: BTreeMap<String, TrafficCounters>,
    /// P_Key table of the adapter's ports, starting at slot 0. An empty table stands for the default P_Key
    /// only.
    #[serde(default)]
    pub(crate) pkeys: Vec<PKey>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TrafficCounters {
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) received_bytes: u64,
    pub(crate) sent_bytes: u64,
}

impl TrafficCounters {
    /// Returns the traffic of one end of a veth pair from the counters of the other end, by swapping received
    /// and sent.
    pub(crate) fn from_peer(traffic: LinkStats) -> Self {
        Self {
            received: traffic.tx_packets,
            sent: traffic.rx_packets,
            received_bytes: traffic.tx_bytes,
            sent_bytes: traffic.rx_bytes,
        }
    }

    /// Returns the increase since `before`. If the interface was recreated in between, its counters started
    /// again at zero, and all of the traffic is new.
    pub(crate) fn since(self, before: Self) -> Self {
        if self.received < before.received || self.sent < before.sent {
            return self;
        }
        Self {
            received: self.received - before.received,
            sent: self.sent - before.sent,
            received_bytes: self.received_bytes.saturating_sub(before.received_bytes),
            sent_bytes: self.sent_bytes.saturating_sub(before.sent_bytes),
        }
    }

    pub(crate) fn add(&mut self, more: Self) {
        self.received += more.received;
        self.sent += more.sent;
        self.received_bytes += more.received_bytes;
        self.sent_bytes += more.sent_bytes;
    }

    /// The counters with the names of mlx5's Ethernet driver (vport_stats_desc of en_stats.c). IPoIB has none of
    /// these.
    pub(crate) fn statistics(self) -> Vec<(String, u64)> {
        let named = |(name, value): (&str, u64)| (name.to_owned(), value);
        let vport = [
            ("rx_vport_unicast_packets", self.received),
            ("rx_vport_unicast_bytes", self.received_bytes),
            ("tx_vport_unicast_packets", self.sent),
            ("tx_vport_unicast_bytes", self.sent_bytes),
            ("rx_prio0_pause", 0),
            ("tx_prio0_pause", 0),
            ("rx_prio0_discards", 0),
        ];
        vport.map(named).into()
    }

    pub(crate) fn is_zero(self) -> bool {
        self == Self::default()
    }
}

/// A virtual function: the settings that the physical function has for it, and the state of the function
/// itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SimVf {
    pub(crate) node_guid: Guid,
    pub(crate) port_guid: Guid,
    pub(crate) state: VfLinkState,
    /// P_Key table, starting at slot 0.
    pub(crate) pkeys: Vec<PKey>,
    pub(crate) function: SimFunction,
}

impl Default for SimVf {
    /// A new virtual function has no GUID and is in the default partition.
    fn default() -> Self {
        Self {
            node_guid: Guid::new(0),
            port_guid: Guid::new(0),
            state: VfLinkState::Auto,
            pkeys: vec![PKey::DEFAULT],
            function: SimFunction::default(),
        }
    }
}

/// Driver and RDMA device of a physical or virtual function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SimFunction {
    /// Name of the bound driver; `None` if the function is unbound.
    pub(crate) driver: Option<String>,
    /// The only driver that may bind to the function. If `None`, the device ID determines the driver.
    #[serde(rename = "reserved")]
    pub(crate) driver_override: Option<String>,
    /// RDMA device of the function. Only the adapter's own driver creates one, vfio-pci does not.
    pub(crate) device: Option<SimRdmaDevice>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SimRdmaDevice {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) node_guid: Guid,
    /// Port GUIDs, starting at port 1.
    pub(crate) port_guids: Vec<Guid>,
    /// Queue pair number, the first part of IPoIB addresses.
    pub(crate) queue_pair: u32,
    pub(crate) verbs: DeviceNode,
    /// For each InfiniBand port: its number, and its umad and issm device nodes.
    pub(crate) managed: Vec<(usize, DeviceNode, DeviceNode)>,
    /// Network namespace that contains the RDMA device. `None` stands for the host's namespace.
    pub(crate) netns: Option<NetnsId>,
    /// Interface name of each port; `None` if the interface is not in the host's namespace.
    pub(crate) netdevs: Vec<Option<String>>,
    /// Nonzero counters of each port.
    pub(crate) counters: Vec<BTreeMap<String, u64>>,
    /// Traffic through the interface of each port.
    pub(crate) traffic: Vec<TrafficCounters>,
}

/// Identifies the physical function of an adapter (`vf` is `None`) or one of its virtual functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FunctionId {
    pub(crate) adapter: usize,
    pub(crate) vf: Option<usize>,
}

impl SimState {
    /// Returns the state at power-on: all adapters are plugged in, without drivers and virtual functions.
    pub(crate) fn new(profile: &Profile) -> Self {
        let adapter = |hca: &crate::HcaProfile| SimAdapter {
            plugged: true,
            ports: hca.ports.iter().map(|port| port.state).collect(),
            ..SimAdapter::default()
        };
        Self {
            netns_mode: profile.netns_mode,
            serial: 0,
            adapters: profile.hcas.iter().map(adapter).collect(),
        }
    }

    /// All functions that are plugged in.
    pub(crate) fn functions(&self) -> Vec<FunctionId> {
        let plugged = self.adapters.iter().enumerate().filter(|(_, adapter)| adapter.plugged);
        plugged
            .flat_map(|(position, adapter)| {
                let vfs = (0..adapter.vfs.len()).map(Some);
                std::iter::once(None).chain(vfs).map(move |vf| FunctionId { adapter: position, vf })
            })
            .collect()
    }

    pub(crate) fn function(&self, id: FunctionId) -> Option<&SimFunction> {
        let adapter = self.adapters.get(id.adapter)?;
        match id.vf {
            None => Some(&adapter.function),
            Some(vf) => Some(&adapter.vfs.get(vf)?.function),
        }
    }

    pub(crate) fn function_mut(&mut self, id: FunctionId) -> Option<&mut SimFunction> {
        let adapter = self.adapters.get_mut(id.adapter)?;
        match id.vf {
            None => Some(&mut adapter.function),
            Some(vf) => Some(&mut adapter.vfs.get_mut(vf)?.function),
        }
    }

    pub(crate) fn device(&self, id: FunctionId) -> Option<&SimRdmaDevice> {
        self.function(id)?.device.as_ref()
    }

    pub(crate) fn device_mut(&mut self, id: FunctionId) -> Option<&mut SimRdmaDevice> {
        self.function_mut(id)?.device.as_mut()
    }

    /// All RDMA devices, in any namespace.
    pub(crate) fn devices(&self) -> impl Iterator<Item = (FunctionId, &SimRdmaDevice)> {
        self.functions().into_iter().filter_map(|id| Some((id, self.device(id)?)))
    }
}
