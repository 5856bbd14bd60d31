//! Compares the adapters with the desired configuration, publishes the functions that are ready, and runs actions. The
//! functions block for seconds, so they must not run on a thread of the async runtime.

use super::{
    Action, ActionOutcome, GuidChooser, GuidFile, GuidSource, NodeDiff, ObservedNode, OriginalStateStore,
    apply::apply,
    desired::DesiredNodeConfig,
    diff::{cards_to_query, diff},
    observe::{RunningHolders, observe_firmware, observe_node, read_holder_uids, running_holders},
    ready_pools::{pool_addresses, ready_pools},
};
use crate::{Error, caches::PodOwner, partition::GuidRequests, pools::DevicePool};
use ferroband_daemon::watch_cache::WatchCache;
use ferroband_kernel::{Hardware, firmware::Firmware};
use ferroband_model::Fault;
use std::{collections::BTreeSet, path::PathBuf, sync::Arc, thread, time::Duration};
use tokio::sync::watch;
use tracing::info;

/// Time given to the kubelet to process that a function is no longer advertised.
const WITHDRAW_DELAY: Duration = Duration::from_secs(1);

/// Configures the adapters of this node and publishes their functions as pools.
pub struct Configurator {
    pub hardware: Arc<dyn Hardware>,
    pub firmware: Arc<dyn Firmware>,
    /// Records of how the adapters were configured before Ferroband changed them.
    pub original_states: OriginalStateStore,
    /// Assigns GUIDs. `None` in a dry run that cannot know them.
    pub guids: Option<Arc<dyn GuidSource>>,
    pub requested_guids: Arc<dyn GuidRequests>,
    /// The kubelet's device plugin directory, which contains its checkpoint.
    pub device_plugins_dir: PathBuf,
    pub pods: Arc<WatchCache<PodOwner>>,
    /// Receives the pools of the functions that are ready, which are then advertised.
    pub pools: watch::Sender<Arc<Vec<DevicePool>>>,
    /// Prefix of the resource names of policies, for example `openshift.io`.
    pub prefix: String,
}

/// The observed state of the node and its difference from the desired configuration.
#[derive(Default)]
pub struct ConfigurationPass {
    pub observed: ObservedNode,
    pub diff: NodeDiff,
}

/// Results of actions that did not succeed.
#[derive(Default)]
pub struct AppliedActions {
    pub failures: Vec<Fault>,
    /// Actions that the kernel accepts only after a reboot.
    pub refused: Vec<Action>,
}

impl Configurator {
    /// Maximum number of times that actions are run and the node is observed again. A complete change needs fewer:
    /// one round creates the functions, the next configures them.
    pub const MAX_ROUNDS: usize = 6;

    /// Observes the node and compares it with the desired configuration. Changes nothing. `refused` are the actions
    /// that the kernel refused in this pass.
    pub fn compare(
        &self,
        desired: &DesiredNodeConfig,
        refused: Vec<Action>,
    ) -> Result<ConfigurationPass, Error> {
        let mut observed = self.observe(desired)?;
        observed.refused = refused;
        let diff = self.diff(desired, &observed);
        Ok(ConfigurationPass { observed, diff })
    }

    /// Compares like [`Configurator::compare`], and publishes the functions that are ready.
    pub fn prepare(
        &self,
        desired: &DesiredNodeConfig,
        refused: Vec<Action>,
    ) -> Result<ConfigurationPass, Error> {
        let mut pass = self.compare(desired, refused)?;
        if self.publish_pools(desired, &pass) {
            // A pod may have got one of the withdrawn functions at the last moment, so read the holders again.
            thread::sleep(WITHDRAW_DELAY);
            pass.observed.holders = self.running_holders();
            pass.diff = self.diff(desired, &pass.observed);
        }
        Ok(pass)
    }

    fn observe(&self, desired: &DesiredNodeConfig) -> Result<ObservedNode, Error> {
        let mut observed = observe_node(self.hardware.as_ref())?;
        observed.original_states = self.original_states.read_all()?;
        observed.holders = self.running_holders();
        for adapter in &mut observed.adapters {
            if let Some(original_state) = observed.original_states.get(&adapter.pci) {
                adapter.status.externally_managed = original_state.external.then_some(true);
                // Report former names as alternative names, so that a policy still selects an interface that was
                // renamed.
                let current: BTreeSet<_> =
                    adapter.status.name.iter().chain(&adapter.status.alt_names).cloned().collect();
                let former = original_state.names.iter().filter(|name| !current.contains(*name)).cloned();
                adapter.status.alt_names.extend(former);
            }
            // A GUID that the pod which holds the function requested is no difference.
            for vf in &mut adapter.vfs {
                let is_held = observed.holders.as_ref().is_none_or(|holders| holders.contains_key(&vf.pci));
                let current = vf.current_guid().filter(|_| is_held);
                vf.guid_requested =
                    current.is_some_and(|guid| self.requested_guids.is_requested((vf.pci, guid)));
            }
        }
        let cards = cards_to_query(desired, &observed.adapters);
        observed.firmware = observe_firmware(self.hardware.root(), self.firmware.as_ref(), &cards);
        Ok(observed)
    }

    fn diff(&self, desired: &DesiredNodeConfig, observed: &ObservedNode) -> NodeDiff {
        let guid_file = self.hardware.root().path(GuidFile::PATH);
        let guids = GuidChooser::read(&guid_file, self.guids.as_deref()).choose(desired, observed);
        diff(desired, observed, &guids)
    }

    fn running_holders(&self) -> Option<RunningHolders> {
        read_holder_uids(&self.device_plugins_dir).map(|uids| running_holders(&uids, &self.pods))
    }

    /// Publishes the pools of the functions that are ready. Returns whether at least one function that an action
    /// disrupts was advertised until now.
    fn publish_pools(&self, desired: &DesiredNodeConfig, pass: &ConfigurationPass) -> bool {
        let next = ready_pools(desired, &pass.observed, &pass.diff.ready_vfs, &self.prefix);
        let mut withdrawn = false;
        self.pools.send_if_modified(|published| {
            withdrawn = pool_addresses(published)
                .any(|address| pass.diff.disrupted_vfs.iter().any(|pci| pci.to_string() == *address));
            let changed = **published != next;
            if changed {
                *published = Arc::new(next);
            }
            changed
        });
        withdrawn
    }

    /// Runs actions in their order. After a failure, the remaining actions of the same adapter are skipped, and
    /// those of the others run.
    pub fn apply(&self, actions: &[Action]) -> AppliedActions {
        let mut applied = AppliedActions::default();
        let mut failed = BTreeSet::new();
        for action in actions {
            if action.adapter().is_some_and(|adapter| failed.contains(&adapter)) {
                continue;
            }
            info!(device = action.target(), change = %action, "configuring");
            match apply(action, self.hardware.as_ref(), self.firmware.as_ref(), &self.original_states) {
                Ok(ActionOutcome::Done) => {}
                Ok(ActionOutcome::RebootRequired) => applied.refused.push(action.clone()),
                Err(e) => {
                    applied.failures.push(e.fault());
                    failed.extend(action.adapter());
                }
            }
        }
        applied
    }
}
