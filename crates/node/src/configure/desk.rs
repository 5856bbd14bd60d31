//! Plans and applies the changes that bring the adapters into the desired configuration. The functions block
//! for seconds, so they must not run on a thread of the async runtime.

use super::{
    GuidFile, GuidSource, ObservedAdapter, ObservedNode, PassGuids,
    apply::apply,
    due::{AdapterChanges, plan_changes},
    held::{self, DeferredVfChange, RunningHolders, holders_of},
    offer::ready_pools,
    record::OriginalStateStore,
    survey::observe_node,
    system::{MELLANOX, SystemChanges, apply_system_settings},
    vf_plan::VfChanges,
    want::DesiredNodeConfig,
};
use crate::{
    Error,
    caches::PodOwner,
    partition::GuidRequests,
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
    pub requested_guids: Arc<dyn GuidRequests>,
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
    /// Pods to be drained, because they hold virtual functions of an adapter that must be reset. These changes are
    /// not in `ready`.
    pub holders: Vec<VfHolder>,
    /// Changes to single functions that pods hold. No pod is drained for them. They are not in `ready` until the
    /// function is free.
    pub deferred: Vec<DeferredVfChange>,
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
        self.mark_requested_guids(&mut observed, running_holders.as_ref());
        let guid_file = self.hardware.root().path(GuidFile::PATH);
        let guids = PassGuids::read(&guid_file, self.guids.as_ref());
        faults.extend(guids.guid_file_fault().cloned());
        let mut planned = BTreeMap::new();
        let mut ready_vfs = BTreeSet::new();
        for adapter in &observed.adapters {
            let (desired_adapter, original_state) =
                (desired.adapters.get(&adapter.pci), original_states.get(&adapter.pci));
            let can_change_firmware = changes_firmware(desired, adapter);
            let plan = plan_changes(desired_adapter, adapter, original_state, &guids, can_change_firmware);
            faults.extend(plan.faults);
            ready_vfs.extend(plan.ready_vfs);
            if !plan.changes.is_empty() {
                planned.insert(adapter.pci, plan.changes);
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
        let running_holders = match self.publish_pools(desired, &observed, &ready_vfs, &disrupted) {
            // A pod may have got one of the withdrawn functions at the last moment, so read the holders again.
            true => {
                thread::sleep(WITHDRAW_DELAY);
                self.running_holders()
            }
            false => running_holders,
        };
        // If the kubelet's checkpoint cannot be read, every function may be held.
        let is_held = |pci: PciAddress| running_holders.as_ref().is_none_or(|all| all.contains_key(&pci));
        let mut pass = ConfigurationPass { observed, faults, reboot, ..ConfigurationPass::default() };
        let mut drained = BTreeSet::new();
        for (pci, mut changes) in planned {
            let is_busy = changes.resets_adapter()
                && !desired.skip_drain
                && changes.disrupted_vfs.iter().any(|pci| is_held(*pci));
            if is_busy {
                drained.append(&mut changes.disrupted_vfs);
                continue;
            }
            let held = changes.take_held(is_held);
            let defer = |vf: VfChanges| DeferredVfChange::new(&vf, running_holders.as_ref());
            pass.deferred.extend(held.into_iter().map(defer));
            if !changes.is_empty() {
                pass.ready.insert(pci, changes);
            }
        }
        pass.holders = holders_of(&running_holders.unwrap_or_default(), &drained);
        Ok(pass)
    }

    /// Marks the functions whose GUID was requested by the pod that holds them. Such a GUID is no difference.
    fn mark_requested_guids(&self, observed: &mut ObservedNode, holders: Option<&RunningHolders>) {
        for vf in observed.adapters.iter_mut().flat_map(|adapter| &mut adapter.vfs) {
            let is_held = holders.is_none_or(|holders| holders.contains_key(&vf.pci));
            let current = vf.current_guid().filter(|_| is_held);
            vf.guid_requested = current.is_some_and(|guid| self.requested_guids.is_requested((vf.pci, guid)));
        }
    }

    fn running_holders(&self) -> Option<RunningHolders> {
        held::read_holder_uids(&self.device_plugins_dir).map(|uids| held::running_holders(&uids, &self.pods))
    }

    /// Publishes the pools of the functions that are ready. Returns whether at least one function in
    /// `disrupted` was advertised until now.
    fn publish_pools(
        &self,
        desired: &DesiredNodeConfig,
        observed: &ObservedNode,
        ready_vfs: &BTreeSet<PciAddress>,
        disrupted: &BTreeSet<PciAddress>,
    ) -> bool {
        let next = ready_pools(desired, observed, ready_vfs, &self.prefix);
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
