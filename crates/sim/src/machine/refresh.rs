//! Updates from changes outside the simulation: moved interfaces, deleted namespaces, traffic.

use super::SimMachine;
use crate::Error;
use crate::live_netns;
use crate::netdev;
use crate::state::{FunctionId, TrafficCounters};
use crate::sysfs_tree::counters;
use crate::vf_veth;
use ferroband_kernel::Link;
use std::collections::BTreeMap;

impl SimMachine {
    /// Updates the state and the sysfs trees according to the current interfaces, namespaces and traffic of
    /// the host.
    pub(crate) fn refresh(&mut self) -> Result<(), Error> {
        self.reclaim_devices()?;
        self.sync_interfaces()?;
        self.count_traffic()
    }

    /// Moves RDMA devices of deleted network namespaces back to the host's namespace, as the kernel does.
    pub(crate) fn reclaim_devices(&mut self) -> Result<(), Error> {
        let away: Vec<_> =
            self.state.devices().filter_map(|(id, device)| Some((id, device.netns?))).collect();
        let ended = live_netns::find_ended(&away.iter().map(|(_, netns)| *netns).collect::<Vec<_>>());
        for (id, _) in away.into_iter().filter(|(_, netns)| ended.contains(netns)) {
            self.set_device_netns(id, None)?;
        }
        Ok(())
    }

    /// Updates interfaces that were moved or renamed. Recreates interfaces that were deleted with a
    /// namespace, because the kernel would have moved the interfaces of real hardware back to the host.
    fn sync_interfaces(&mut self) -> Result<(), Error> {
        let links = self.route.links()?;
        let with_device: Vec<FunctionId> = self.state.devices().map(|(id, _)| id).collect();
        for id in with_device {
            match id.vf {
                Some(vf) if !links.iter().any(|link| link.name == vf_veth::host_end_name(id.adapter, vf)) => {
                    self.make_interfaces(id)?;
                }
                _ => self.sync_function_interfaces(id, &links)?,
            }
        }
        Ok(())
    }

    fn sync_function_interfaces(&mut self, id: FunctionId, links: &[Link]) -> Result<(), Error> {
        let view = self.function_view(id)?;
        let alias = netdev::alias_for(view.address);
        let local: Vec<&Link> = links.iter().filter(|link| link.alias.as_ref() == Some(&alias)).collect();
        let before = self.state.device(id).map(|device| device.netdevs.clone()).unwrap_or_default();
        let names = match id.vf {
            Some(_) => {
                let first = local.first().map(|link| link.name.clone());
                std::iter::once(first).chain(before.iter().skip(1).cloned()).collect()
            }
            // The interface of a physical port counts as present only under its configured name.
            None => {
                let configured = view.hca.ports.iter().map(|port| port.netdev.as_ref());
                configured
                    .map(|netdev| netdev.filter(|netdev| local.iter().any(|link| link.name == netdev.name)))
                    .map(|netdev| netdev.map(|netdev| netdev.name.clone()))
                    .collect()
            }
        };
        self.update_interfaces(id, names)
    }

    /// Adds the traffic since the last call to the port counters. The host ends of the veth pairs count the
    /// traffic, with swapped directions. Traffic of a virtual function or an IPoIB child also counts for the
    /// port of its adapter.
    fn count_traffic(&mut self) -> Result<(), Error> {
        let links = self.route.links()?;
        let ends = links.iter().filter(|link| link.name.starts_with("fbv") || link.name.starts_with("fbf"));
        let mut changed: BTreeMap<FunctionId, TrafficCounters> = BTreeMap::new();
        let mut counters_now: Vec<BTreeMap<String, TrafficCounters>> =
            vec![BTreeMap::new(); self.state.adapters.len()];
        for link in ends {
            let (Some(id), Some(traffic)) = (self.counted_function(link), link.stats) else { continue };
            let counters = TrafficCounters::from_peer(traffic);
            let before =
                self.state.adapters.get(id.adapter).and_then(|adapter| adapter.last_traffic.get(&link.name));
            let increase = counters.since(before.copied().unwrap_or_default());
            if let Some(counters_now) = counters_now.get_mut(id.adapter) {
                counters_now.insert(link.name.clone(), counters);
            }
            if increase.is_zero() {
                continue;
            }
            let physical = FunctionId { vf: None, ..id };
            for id in [Some(physical), id.vf.map(|_| id)].into_iter().flatten() {
                changed.entry(id).or_default().add(increase);
            }
        }
        let differ = counters_now
            .iter()
            .zip(&self.state.adapters)
            .any(|(counters_now, adapter)| *counters_now != adapter.last_traffic);
        if !differ && changed.is_empty() {
            return Ok(());
        }
        self.mark_dirty()?;
        for (adapter, counters_now) in self.state.adapters.iter_mut().zip(counters_now) {
            adapter.last_traffic = counters_now;
        }
        for (id, increase) in changed {
            if let Some(device) = self.state.device_mut(id) {
                if let Some(port) = device.counters.first_mut() {
                    counters::add_traffic(port, increase);
                }
                if let Some(traffic) = device.traffic.first_mut() {
                    traffic.add(increase);
                }
            }
            self.write_counters(id)?;
        }
        Ok(())
    }

    /// Returns the function whose traffic the host end of a veth pair counts.
    fn counted_function(&self, link: &Link) -> Option<FunctionId> {
        if let Some(alias) = &link.alias {
            let adapter = self.profile.hcas.iter().position(|hca| netdev::alias_for(hca.pci) == *alias)?;
            return Some(FunctionId { adapter, vf: None });
        }
        let (adapter, vf) = link.name.strip_prefix("fbf")?.split_once('v')?;
        Some(FunctionId { adapter: adapter.parse().ok()?, vf: Some(vf.parse().ok()?) })
    }
}
