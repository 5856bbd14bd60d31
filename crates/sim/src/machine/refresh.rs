//! What happens behind the simulation's back: interfaces are moved, namespaces end, packets pass.

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
    /// Brings state and trees up to what is the case.
    pub(crate) fn refresh(&mut self) -> Result<(), Error> {
        self.reclaim_devices()?;
        self.sync_interfaces()?;
        self.count_traffic()
    }

    /// Devices whose namespace has ended come back to the host's, as the kernel brings them.
    pub(crate) fn reclaim_devices(&mut self) -> Result<(), Error> {
        let away: Vec<_> =
            self.state.devices().filter_map(|(which, device)| Some((which, device.netns?))).collect();
        let ended = live_netns::find_ended(&away.iter().map(|(_, netns)| *netns).collect::<Vec<_>>());
        for (which, _) in away.into_iter().filter(|(_, netns)| ended.contains(netns)) {
            self.set_device_netns(which, None)?;
        }
        Ok(())
    }

    /// Interfaces that left this namespace, came back or have another name; and those that went with a
    /// namespace, which the kernel would have brought back.
    fn sync_interfaces(&mut self) -> Result<(), Error> {
        let links = self.route.links()?;
        let with_device: Vec<FunctionId> = self.state.devices().map(|(which, _)| which).collect();
        for which in with_device {
            match which.vf {
                Some(vf)
                    if !links.iter().any(|link| link.name == vf_veth::host_end_name(which.adapter, vf)) =>
                {
                    self.make_interfaces(which)?;
                }
                _ => self.sync_function_interfaces(which, &links)?,
            }
        }
        Ok(())
    }

    fn sync_function_interfaces(&mut self, which: FunctionId, links: &[Link]) -> Result<(), Error> {
        let unit = self.function_view(which)?;
        let alias = netdev::alias_for(unit.address);
        let here: Vec<&Link> = links.iter().filter(|link| link.alias.as_ref() == Some(&alias)).collect();
        let before = self.state.device(which).map(|device| device.netdevs.clone()).unwrap_or_default();
        let names = match which.vf {
            Some(_) => {
                let first = here.first().map(|link| link.name.clone());
                std::iter::once(first).chain(before.iter().skip(1).cloned()).collect()
            }
            // A port's interface is known by its name; one that has another name now is that of the port that
            // lost its own.
            None => {
                let configured = unit.hca.ports.iter().map(|port| port.netdev.as_ref());
                configured
                    .map(|netdev| netdev.filter(|netdev| here.iter().any(|link| link.name == netdev.name)))
                    .map(|netdev| netdev.map(|netdev| netdev.name.clone()))
                    .collect()
            }
        };
        self.update_interfaces(which, names)
    }

    /// Adds what passed since the last look to the counters. The wires' ends that stay here count it, turned
    /// round; what passes a virtual function or a child passes the port of its adapter too.
    fn count_traffic(&mut self) -> Result<(), Error> {
        let links = self.route.links()?;
        let ends = links.iter().filter(|link| link.name.starts_with("fbv") || link.name.starts_with("fbf"));
        let mut changed: BTreeMap<FunctionId, TrafficCounters> = BTreeMap::new();
        let mut seen: Vec<BTreeMap<String, TrafficCounters>> =
            vec![BTreeMap::new(); self.state.adapters.len()];
        for link in ends {
            let (Some(which), Some(traffic)) = (self.counted_function(link), link.stats) else { continue };
            let now = TrafficCounters::from_peer(traffic);
            let before = self
                .state
                .adapters
                .get(which.adapter)
                .and_then(|adapter| adapter.last_traffic.get(&link.name));
            let more = now.since(before.copied().unwrap_or_default());
            if let Some(seen) = seen.get_mut(which.adapter) {
                seen.insert(link.name.clone(), now);
            }
            if more.is_zero() {
                continue;
            }
            let physical = FunctionId { vf: None, ..which };
            for which in [Some(physical), which.vf.map(|_| which)].into_iter().flatten() {
                changed.entry(which).or_default().add(more);
            }
        }
        let differ =
            seen.iter().zip(&self.state.adapters).any(|(seen, adapter)| *seen != adapter.last_traffic);
        if !differ && changed.is_empty() {
            return Ok(());
        }
        self.mark_dirty()?;
        for (adapter, seen) in self.state.adapters.iter_mut().zip(seen) {
            adapter.last_traffic = seen;
        }
        for (which, more) in changed {
            if let Some(device) = self.state.device_mut(which) {
                if let Some(port) = device.counters.first_mut() {
                    counters::add_traffic(port, more);
                }
                if let Some(traffic) = device.traffic.first_mut() {
                    traffic.add(more);
                }
            }
            self.write_counters(which)?;
        }
        Ok(())
    }

    /// The function whose traffic the end of a wire counts.
    fn counted_function(&self, link: &Link) -> Option<FunctionId> {
        if let Some(alias) = &link.alias {
            let adapter = self.profile.hcas.iter().position(|hca| netdev::alias_for(hca.pci) == *alias)?;
            return Some(FunctionId { adapter, vf: None });
        }
        let (adapter, vf) = link.name.strip_prefix("fbf")?.split_once('v')?;
        Some(FunctionId { adapter: adapter.parse().ok()?, vf: Some(vf.parse().ok()?) })
    }
}
