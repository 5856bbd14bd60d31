//! What the simulated machine is like now: what the kernel and the firmware of a real one would remember.

use crate::number_allocator::DeviceNode;
use crate::{Profile, SimPortState};
use ferroband_kernel::rtnetlink::{LinkStats, VfLinkState};
use ferroband_kernel::{NetnsId, NetnsMode};
use ferroband_model::{Guid, PKey};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The machine. Adapters stand in the profile's order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SimState {
    /// How RDMA devices and namespaces go together.
    pub(crate) netns_mode: NetnsMode,
    /// Counts what is made anew, so that no two have the same index or queue pair number.
    pub(crate) serial: u32,
    pub(crate) adapters: Vec<SimAdapter>,
}

/// One adapter with its virtual functions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SimAdapter {
    /// Whether it is in its slot.
    pub(crate) plugged: bool,
    /// What its ports are like.
    pub(crate) ports: Vec<SimPortState>,
    pub(crate) function: SimFunction,
    pub(crate) vfs: Vec<SimVf>,
    /// What went through each interface of ours when it was last looked at, by the name of the end that stays
    /// here.
    #[serde(rename = "seen", default)]
    pub(crate) last_traffic: BTreeMap<String, TrafficCounters>,
    /// The P_Key table of its ports, from slot 0; the default partition alone when empty.
    #[serde(default)]
    pub(crate) pkeys: Vec<PKey>,
}

/// What went through an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TrafficCounters {
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) received_bytes: u64,
    pub(crate) sent_bytes: u64,
}

impl TrafficCounters {
    /// As the other end of a wire counts it.
    pub(crate) fn from_peer(traffic: LinkStats) -> Self {
        Self {
            received: traffic.tx_packets,
            sent: traffic.rx_packets,
            received_bytes: traffic.tx_bytes,
            sent_bytes: traffic.rx_bytes,
        }
    }

    /// What came since `before`; all of it when the interface was made anew meanwhile.
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

    /// The same by the names of mlx5's Ethernet driver (vport_stats_desc of en_stats.c). Its IPoIB has none of these.
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

/// A virtual function: what its physical function knows of it, and itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SimVf {
    pub(crate) node_guid: Guid,
    pub(crate) port_guid: Guid,
    pub(crate) state: VfLinkState,
    /// Its P_Key table, from slot 0.
    pub(crate) pkeys: Vec<PKey>,
    pub(crate) function: SimFunction,
}

impl Default for SimVf {
    /// As it is when it is made: without a GUID.
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

/// What a driver makes of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SimFunction {
    /// The driver it is bound to.
    pub(crate) driver: Option<String>,
    /// The driver it is reserved for.
    #[serde(rename = "reserved")]
    pub(crate) driver_override: Option<String>,
    /// Its RDMA device; only the adapter's own driver makes one.
    pub(crate) device: Option<SimRdmaDevice>,
}

/// An RDMA device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SimRdmaDevice {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) node_guid: Guid,
    /// One for each port.
    pub(crate) port_guids: Vec<Guid>,
    /// The number of the queue pair that IPoIB's addresses begin with.
    pub(crate) queue_pair: u32,
    pub(crate) verbs: DeviceNode,
    /// For each port of InfiniBand: its number, and the files to manage it and to say that it is a subnet
    /// manager's.
    pub(crate) managed: Vec<(usize, DeviceNode, DeviceNode)>,
    /// The namespace it is in; none is the host's.
    pub(crate) netns: Option<NetnsId>,
    /// The interface of each port as it is called in the host's namespace; none when it is not there.
    pub(crate) netdevs: Vec<Option<String>>,
    /// The counters of each port that are not zero.
    pub(crate) counters: Vec<BTreeMap<String, u64>>,
    /// What went through the interface of each port.
    pub(crate) traffic: Vec<TrafficCounters>,
}

/// A function: an adapter's own, or a virtual one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FunctionId {
    pub(crate) adapter: usize,
    pub(crate) vf: Option<usize>,
}

impl SimState {
    /// The machine as it is switched on: no drivers, no virtual functions.
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

    /// All functions that are there.
    pub(crate) fn functions(&self) -> Vec<FunctionId> {
        let plugged = self.adapters.iter().enumerate().filter(|(_, adapter)| adapter.plugged);
        plugged
            .flat_map(|(position, adapter)| {
                let vfs = (0..adapter.vfs.len()).map(Some);
                std::iter::once(None).chain(vfs).map(move |vf| FunctionId { adapter: position, vf })
            })
            .collect()
    }

    pub(crate) fn function(&self, which: FunctionId) -> Option<&SimFunction> {
        let adapter = self.adapters.get(which.adapter)?;
        match which.vf {
            None => Some(&adapter.function),
            Some(vf) => Some(&adapter.vfs.get(vf)?.function),
        }
    }

    pub(crate) fn function_mut(&mut self, which: FunctionId) -> Option<&mut SimFunction> {
        let adapter = self.adapters.get_mut(which.adapter)?;
        match which.vf {
            None => Some(&mut adapter.function),
            Some(vf) => Some(&mut adapter.vfs.get_mut(vf)?.function),
        }
    }

    pub(crate) fn device(&self, which: FunctionId) -> Option<&SimRdmaDevice> {
        self.function(which)?.device.as_ref()
    }

    pub(crate) fn device_mut(&mut self, which: FunctionId) -> Option<&mut SimRdmaDevice> {
        self.function_mut(which)?.device.as_mut()
    }

    /// All RDMA devices, wherever they are.
    pub(crate) fn devices(&self) -> impl Iterator<Item = (FunctionId, &SimRdmaDevice)> {
        self.functions().into_iter().filter_map(|which| Some((which, self.device(which)?)))
    }
}
