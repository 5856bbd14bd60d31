//! What touches the machine. It blocks, for seconds when functions are made: only on threads that may.

use super::{
    GuidSource, ObservedAdapter, ObservedNode,
    apply::apply,
    due::{AdapterChanges, plan_changes},
    held::{self, holders_of},
    offer::ready_pools,
    record::OriginalStateStore,
    survey::observe_node,
    system::{MELLANOX, SystemChanges, apply_system_settings},
    want::DesiredNodeConfig,
};
use crate::{
    Error,
    caches::PodOwner,
    pools::{DevicePool, DevicePoolKind},
};
use ferroband_api::sriov::VfHolder;
use ferroband_daemon::watch_cache::WatchCache;
use ferroband_kernel::{Hardware, firmware::Firmware};
use ferroband_model::{Fault, FaultCode, PciAddress};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    thread,
    time::Duration,
};
use tokio::sync::watch;

/// How long the kubelet gets to hear that a function is offered no longer.
const WITHDRAW_DELAY: Duration = Duration::from_secs(1);

/// The machine, what is known of it, and whom it is offered to.
pub struct Configurator {
    /// The hardware.
    pub hardware: Arc<dyn Hardware>,
    /// Its firmware.
    pub firmware: Arc<dyn Firmware>,
    /// What was before us.
    pub original_states: OriginalStateStore,
    /// Where GUIDs come from.
    pub guids: Arc<dyn GuidSource>,
    /// The kubelet's folder of device plugins.
    pub device_plugins_dir: PathBuf,
    /// The pods of the node.
    pub pods: Arc<WatchCache<PodOwner>>,
    /// Where the pools go.
    pub pools: watch::Sender<Arc<Vec<DevicePool>>>,
    /// The prefix of resources.
    pub prefix: String,
}

/// What a look shows.
#[derive(Default)]
pub struct ConfigurationPass {
    /// The hardware.
    pub observed: ObservedNode,
    /// What can be done now.
    pub ready: BTreeMap<PciAddress, AdapterChanges>,
    /// The pods that keep the rest from being done.
    pub holders: Vec<VfHolder>,
    /// What cannot be done.
    pub faults: Vec<Fault>,
    /// What comes into force with a reboot only.
    pub reboot: Vec<String>,
}

impl Configurator {
    /// More rounds than any change takes: record, count, functions.
    pub const MAX_ROUNDS: usize = 6;

    /// Look at everything, and offer what is right.
    pub fn prepare(&self, wanted: &DesiredNodeConfig) -> Result<ConfigurationPass, Error> {
        let mut survey = observe_node(self.hardware.as_ref())?;
        let records = self.original_states.read_all()?;
        for adapter in &mut survey.adapters {
            if let Some(record) = records.get(&adapter.pci) {
                adapter.status.externally_managed = record.external.then_some(true);
                // An interface that changed its name is still the one that the policy named.
                let known: BTreeSet<_> =
                    adapter.status.name.iter().chain(&adapter.status.alt_names).cloned().collect();
                adapter
                    .status
                    .alt_names
                    .extend(record.names.iter().filter(|name| !known.contains(*name)).cloned());
            }
        }
        let SystemChanges { reboot, faults: mut of_system } =
            apply_system_settings(self.hardware.as_ref(), self.firmware.as_ref(), wanted, &survey)?;
        let mut faults = wanted.faults.clone();
        faults.append(&mut of_system);
        let live = self.running_holders();
        let held: BTreeSet<PciAddress> = live.iter().flatten().map(|(pci, _)| *pci).collect();
        let mut dues = BTreeMap::new();
        for adapter in &survey.adapters {
            let (want, record) = (wanted.adapters.get(&adapter.pci), records.get(&adapter.pci));
            match plan_changes(want, adapter, record, self.guids.as_ref(), &held) {
                Ok(due) if due.is_empty() => {}
                Ok(due) => drop(dues.insert(adapter.pci, due)),
                // The firmware was told, or said why not.
                Err(_)
                    if want.is_some_and(|want| want.vf_count > adapter.total_vfs)
                        && changes_firmware(wanted, adapter) => {}
                Err(fault) => faults.push(fault),
            }
        }
        for pci in
            wanted.adapters.keys().filter(|pci| survey.adapters.iter().all(|adapter| adapter.pci != **pci))
        {
            faults.push(Fault::new(
                FaultCode::NoDevice,
                format!("adapter {pci}"),
                "it is not on this node any more",
                "put it back, or delete the policy",
            ));
        }
        let touched: BTreeSet<PciAddress> =
            dues.values().flat_map(|due| &due.disrupted_vfs).copied().collect();
        let live = match self.publish_pools(wanted, &survey, &touched) {
            // Somebody may have got one in the last moment.
            true => {
                thread::sleep(WITHDRAW_DELAY);
                self.running_holders()
            }
            false => live,
        };
        let busy = |due: &AdapterChanges| match &live {
            _ if wanted.skip_drain => false,
            Some(live) => due.disrupted_vfs.iter().any(|pci| live.contains_key(pci)),
            None => !due.disrupted_vfs.is_empty(),
        };
        let (waiting, ready): (BTreeMap<_, _>, _) = dues.into_iter().partition(|(_, due)| busy(due));
        let waiting: BTreeSet<PciAddress> =
            waiting.values().flat_map(|due| &due.disrupted_vfs).copied().collect();
        let holders = holders_of(&live.unwrap_or_default(), &waiting);
        Ok(ConfigurationPass { observed: survey, ready, holders, faults, reboot })
    }

    fn running_holders(&self) -> Option<BTreeMap<PciAddress, Vec<VfHolder>>> {
        held::read_holder_uids(&self.device_plugins_dir)
            .map(|notes| held::running_holders(&notes, &self.pods))
    }

    /// Offer what is right; whether something that was offered is about to be touched.
    fn publish_pools(
        &self,
        wanted: &DesiredNodeConfig,
        survey: &ObservedNode,
        touched: &BTreeSet<PciAddress>,
    ) -> bool {
        let next = ready_pools(wanted, survey, self.guids.as_ref(), touched, &self.prefix);
        let mut withdrawn = false;
        self.pools.send_if_modified(|known| {
            withdrawn =
                pool_addresses(known).any(|address| touched.iter().any(|pci| pci.to_string() == *address));
            let changed = **known != next;
            if changed {
                *known = Arc::new(next);
            }
            changed
        });
        withdrawn
    }

    /// Bring the machine to what is wanted as far as it goes now; what does not go.
    pub fn converge(&self, wanted: &DesiredNodeConfig) -> Result<(ConfigurationPass, Vec<Fault>), Error> {
        let mut look = self.prepare(wanted)?;
        let mut failures = Vec::new();
        for _ in 0..Self::MAX_ROUNDS {
            if look.ready.is_empty() || !failures.is_empty() {
                break;
            }
            failures = self.apply_ready(&look);
            look = self.prepare(wanted)?;
        }
        Ok((look, failures))
    }

    /// Do what can be done.
    pub fn apply_ready(&self, look: &ConfigurationPass) -> Vec<Fault> {
        let done = look
            .ready
            .iter()
            .map(|(pci, due)| apply(self.hardware.as_ref(), &self.original_states, *pci, due));
        done.filter_map(Result::err).map(|e| e.fault()).collect()
    }
}

/// Whether the adapter's firmware is asked for more functions.
fn changes_firmware(wanted: &DesiredNodeConfig, adapter: &ObservedAdapter) -> bool {
    adapter.vendor == MELLANOX && !wanted.skip_firmware
}

fn pool_addresses(pools: &[DevicePool]) -> impl Iterator<Item = &String> {
    let functions = pools.iter().filter_map(|pool| match &pool.kind {
        DevicePoolKind::Functions(functions) => Some(functions),
        _ => None,
    });
    functions.flat_map(|functions| &functions.selectors).flat_map(|selector| &selector.pci_addresses)
}
