//! Plans and applies the changes that bring the adapters into the desired configuration. The functions block
//! for seconds, so they must not run on a thread of the async runtime.

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

/// Time given to the kubelet to process that a function is no longer advertised.
const WITHDRAW_DELAY: Duration = Duration::from_secs(1);

/// Configures the adapters of this node and publishes their functions as pools.
pub struct Configurator {
    pub hardware: Arc<dyn Hardware>,
    pub firmware: Arc<dyn Firmware>,
    /// Records of how the adapters were configured before Ferroband changed them.
    pub original_states: OriginalStateStore,
    pub guids: Arc<dyn GuidSource>,
    /// The kubelet's device plugin directory, which contains its checkpoint.
    pub device_plugins_dir: PathBuf,
    pub pods: Arc<WatchCache<PodOwner>>,
    /// Receives the pools of the functions that are ready, which are then advertised.
    pub pools: watch::Sender<Arc<Vec<DevicePool>>>,
    /// Prefix of the resource names of policies, for example `openshift.io`.
    pub prefix: String,
}

/// Result of comparing the hardware with the desired configuration.
#[derive(Default)]
pub struct ConfigurationPass {
    pub observed: ObservedNode,
    /// Changes that can be applied now, because no pod holds the affected functions.
    pub ready: BTreeMap<PciAddress, AdapterChanges>,
    /// Pods that hold virtual functions which planned changes would disrupt. These changes are not in
    /// `ready`.
    pub holders: Vec<VfHolder>,
    pub faults: Vec<Fault>,
    /// Descriptions of the settings that take effect only after a reboot, for messages.
    pub reboot: Vec<String>,
}

impl Configurator {
    /// Maximum number of times that changes are applied and the hardware is observed again. A complete change
    /// needs fewer: one round creates the functions, the next configures them.
    pub const MAX_ROUNDS: usize = 6;

    /// Observes the hardware, applies system settings, plans the changes and publishes the functions that are ready.
    pub fn prepare(&self, desired: &DesiredNodeConfig) -> Result<ConfigurationPass, Error> {
        let mut observed = observe_node(self.hardware.as_ref())?;
        let original_states = self.original_states.read_all()?;
        for adapter in &mut observed.adapters {
            if let Some(original_state) = original_states.get(&adapter.pci) {
                adapter.status.externally_managed = original_state.external.then_some(true);
                // Report former names as alternative names, so that a policy still selects an interface that was
                // renamed.
                let current: BTreeSet<_> =
                    adapter.status.name.iter().chain(&adapter.status.alt_names).cloned().collect();
                adapter
                    .status
                    .alt_names
                    .extend(original_state.names.iter().filter(|name| !current.contains(*name)).cloned());
            }
        }
        let SystemChanges { reboot, faults: mut system_faults } =
            apply_system_settings(self.hardware.as_ref(), self.firmware.as_ref(), desired, &observed)?;
        let mut faults = desired.faults.clone();
        faults.append(&mut system_faults);
        let running_holders = self.running_holders();
        let held: BTreeSet<PciAddress> = running_holders.iter().flatten().map(|(pci, _)| *pci).collect();
        let mut planned = BTreeMap::new();
        for adapter in &observed.adapters {
            let (desired_adapter, original_state) =
                (desired.adapters.get(&adapter.pci), original_states.get(&adapter.pci));
            match plan_changes(desired_adapter, adapter, original_state, self.guids.as_ref(), &held) {
                Ok(changes) if changes.is_empty() => {}
                Ok(changes) => drop(planned.insert(adapter.pci, changes)),
                // The missing functions need a firmware change. `apply_system_settings` has made it, or reported
                // why not.
                Err(_)
                    if desired_adapter
                        .is_some_and(|desired_adapter| desired_adapter.vf_count > adapter.total_vfs)
                        && changes_firmware(desired, adapter) => {}
                Err(fault) => faults.push(fault),
            }
        }
        for pci in
            desired.adapters.keys().filter(|pci| observed.adapters.iter().all(|adapter| adapter.pci != **pci))
        {
            faults.push(Fault::new(
                FaultCode::NoDevice,
                format!("adapter {pci}"),
                "a policy selects the adapter, but it is no longer on this node",
                "reinstall the adapter, or delete the policy",
            ));
        }
        let disrupted: BTreeSet<PciAddress> =
            planned.values().flat_map(|changes| &changes.disrupted_vfs).copied().collect();
        let running_holders = match self.publish_pools(desired, &observed, &disrupted) {
            // A pod may have got one of the withdrawn functions at the last moment, so read the holders again.
            true => {
                thread::sleep(WITHDRAW_DELAY);
                self.running_holders()
            }
            false => running_holders,
        };
        let busy = |changes: &AdapterChanges| match &running_holders {
            _ if desired.skip_drain => false,
            Some(running_holders) => {
                changes.disrupted_vfs.iter().any(|pci| running_holders.contains_key(pci))
            }
            None => !changes.disrupted_vfs.is_empty(),
        };
        let (waiting, ready): (BTreeMap<_, _>, _) =
            planned.into_iter().partition(|(_, changes)| busy(changes));
        let waiting: BTreeSet<PciAddress> =
            waiting.values().flat_map(|changes| &changes.disrupted_vfs).copied().collect();
        let holders = holders_of(&running_holders.unwrap_or_default(), &waiting);
        Ok(ConfigurationPass { observed, ready, holders, faults, reboot })
    }

    fn running_holders(&self) -> Option<BTreeMap<PciAddress, Vec<VfHolder>>> {
        held::read_holder_uids(&self.device_plugins_dir).map(|uids| held::running_holders(&uids, &self.pods))
    }

    /// Publishes the pools of the functions that are ready. Returns whether at least one function in
    /// `disrupted` was advertised until now.
    fn publish_pools(
        &self,
        desired: &DesiredNodeConfig,
        observed: &ObservedNode,
        disrupted: &BTreeSet<PciAddress>,
    ) -> bool {
        let next = ready_pools(desired, observed, self.guids.as_ref(), disrupted, &self.prefix);
        let mut withdrawn = false;
        self.pools.send_if_modified(|published| {
            withdrawn = pool_addresses(published)
                .any(|address| disrupted.iter().any(|pci| pci.to_string() == *address));
            let changed = **published != next;
            if changed {
                *published = Arc::new(next);
            }
            changed
        });
        withdrawn
    }

    /// Applies changes and observes the hardware again until no change is ready or a change fails. Returns
    /// the result of the last comparison, and the failures.
    pub fn converge(&self, desired: &DesiredNodeConfig) -> Result<(ConfigurationPass, Vec<Fault>), Error> {
        let mut pass = self.prepare(desired)?;
        let mut failures = Vec::new();
        for _ in 0..Self::MAX_ROUNDS {
            if pass.ready.is_empty() || !failures.is_empty() {
                break;
            }
            failures = self.apply_ready(&pass);
            pass = self.prepare(desired)?;
        }
        Ok((pass, failures))
    }

    /// Applies the changes in `pass.ready`. A failure on one adapter does not stop the others. Returns the
    /// failures.
    pub fn apply_ready(&self, pass: &ConfigurationPass) -> Vec<Fault> {
        let done = pass
            .ready
            .iter()
            .map(|(pci, changes)| apply(self.hardware.as_ref(), &self.original_states, *pci, changes));
        done.filter_map(Result::err).map(|e| e.fault()).collect()
    }
}

/// Whether Ferroband may change the firmware settings of the adapter: it is from Mellanox, and the spec does
/// not disable firmware changes.
fn changes_firmware(desired: &DesiredNodeConfig, adapter: &ObservedAdapter) -> bool {
    adapter.vendor == MELLANOX && !desired.skip_firmware
}

fn pool_addresses(pools: &[DevicePool]) -> impl Iterator<Item = &String> {
    let functions = pools.iter().filter_map(|pool| match &pool.kind {
        DevicePoolKind::Functions(functions) => Some(functions),
        _ => None,
    });
    functions.flat_map(|functions| &functions.selectors).flat_map(|selector| &selector.pci_addresses)
}
