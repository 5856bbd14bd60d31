//! Whether this node may assign new addresses.
//!
//! ```text
//!  AddressState: imports, blocked ranges, restore ─┐
//!  connection to the API server ───────────────────┼─▶ AssignmentGate ──refusal──▶ planning of assignments
//!  this node: entries written again, start confirmed ┘
//! ```
//!
//! Releases, and entries of running pods that are written again, never ask the gate.

use ferroband_address::{IpFamily, IpSpace};
use ferroband_api::ferroband::{AddressState, BlockedAddressRange, RestorePhase};
use ferroband_model::{Fault, FaultCode};
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::watch;

/// What the gate depends on. Nothing may be assigned until all of it is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GateInputs {
    /// Whether the watch of the AddressState is alive, and began with a list that showed no restore of etcd. While it is
    /// broken, etcd may be restored.
    pub connected: bool,
    /// `None` until the leader has created the AddressState.
    pub state: Option<Arc<AddressState>>,
    /// Whether this node noticed a restore of etcd that the AddressState does not show yet.
    pub restore_noticed: bool,
    /// Last epoch of the AddressState for which this node has written the entries of its running pods again.
    pub asserted_epoch: String,
    /// Whether this node knows that etcd was not restored before it started.
    pub start_confirmed: bool,
}

/// Tells the allocator whether it may assign new addresses. All clones share their state.
#[derive(Clone, Debug)]
pub struct AssignmentGate {
    inputs: watch::Sender<GateInputs>,
}

impl Default for AssignmentGate {
    /// Creates a gate that refuses everything.
    fn default() -> Self {
        Self { inputs: watch::Sender::new(GateInputs::default()) }
    }
}

impl AssignmentGate {
    /// Creates a gate that refuses nothing, for tests of the allocator.
    #[doc(hidden)]
    pub fn open() -> Self {
        let gate = Self::default();
        gate.update(|inputs| *inputs = GateInputs::open());
        gate
    }

    /// Changes the inputs. Wakes the receivers of [`Self::changes`] if one of them differs.
    pub fn update(&self, change: impl FnOnce(&mut GateInputs)) {
        self.inputs.send_if_modified(|inputs| {
            let before = inputs.clone();
            change(inputs);
            *inputs != before
        });
    }

    /// Wakes whenever an answer of the gate may have changed.
    pub fn changes(&self) -> watch::Receiver<GateInputs> {
        self.inputs.subscribe()
    }

    /// Whether the leader writes entries for pods of this node that another system attached.
    pub fn is_importing(&self) -> bool {
        let inputs = self.inputs.borrow();
        inputs.state.as_ref().and_then(|state| state.status.as_ref()).is_some_and(|status| status.importing)
    }

    /// Why no address at all may be assigned now; `None` if the gate is open.
    pub fn closed(&self) -> Option<Fault> {
        self.inputs.borrow().closed()
    }

    /// Why no address between `first` and `last` of `space` may be assigned now: the gate is closed, or a blocked range
    /// has an address in common with this one.
    pub fn refusal(&self, space: &IpSpace, (first, last): (IpAddr, IpAddr)) -> Option<Fault> {
        let inputs = self.inputs.borrow();
        inputs.closed().or_else(|| inputs.blocked(space, (first, last)))
    }
}

impl GateInputs {
    fn open() -> Self {
        use ferroband_api::ferroband::{AddressImports, AddressStateStatus, ImportPhase};
        let imports =
            AddressImports { whereabouts: ImportPhase::Complete, spiderpool: ImportPhase::Complete };
        let status = AddressStateStatus { imports, ..AddressStateStatus::default() };
        let state = AddressState { status: Some(status), ..AddressState::default() };
        Self { connected: true, state: Some(Arc::new(state)), start_confirmed: true, ..Self::default() }
    }

    fn closed(&self) -> Option<Fault> {
        const RETRIED: &str = "no action needed, the pod is retried automatically";
        const CHECK_API: &str = "the pod is retried automatically; check that the API server is up";
        const CHECK_LEADER: &str =
            "the pod is retried automatically; check that a replica of ferroband-cluster is ready";
        const CHECK_NODES: &str = "the pod is retried automatically; `kubectl get addressstate cluster -o yaml` names the \
             nodes that are missing: repair them, or delete their Node objects, or taint them \
             node.kubernetes.io/out-of-service if they are off";
        let restore = self.state.as_ref().and_then(|state| state.spec.restore.as_ref());
        let imports =
            self.state.as_ref().and_then(|state| state.status.as_ref()).map(|status| &status.imports);
        let (cause, remedy) = if !self.connected {
            ("the API server is not connected, so it is unknown whether etcd was restored", CHECK_API)
        } else if self.state.is_none() {
            ("the cluster daemon has not created the AddressState yet", CHECK_LEADER)
        } else if self.restore_noticed {
            ("etcd was restored from a backup, and the cluster daemon has not confirmed it yet", CHECK_LEADER)
        } else if restore.is_some_and(|restore| restore.phase == RestorePhase::Asserting) {
            (
                "etcd was restored from a backup, and not all nodes have written their addresses again",
                CHECK_NODES,
            )
        } else if restore.is_some_and(|restore| restore.epoch != self.asserted_epoch) {
            ("etcd was restored from a backup, and this node writes the addresses of its pods again", RETRIED)
        } else if !self.start_confirmed {
            ("the cluster daemon has not confirmed yet that no restore of etcd is under way", CHECK_LEADER)
        } else if imports.is_none_or(|imports| !imports.are_complete()) {
            ("the addresses that Whereabouts and Spiderpool assigned are not imported yet", CHECK_LEADER)
        } else {
            return None;
        };
        Some(Fault::new(FaultCode::ApiUnavailable, "new addresses", cause, remedy))
    }

    fn blocked(&self, space: &IpSpace, range: (IpAddr, IpAddr)) -> Option<Fault> {
        let status = self.state.as_ref()?.status.as_ref()?;
        let blocked = status.blocked_ranges.iter().find(|blocked| blocks(blocked, space, range))?;
        Some(Fault::new(
            FaultCode::AddressHeld,
            format!("addresses {}", blocked.range),
            blocked.reason.clone(),
            "see the conditions of the AddressState cluster; assigned addresses stay in use",
        ))
    }
}

/// Whether a blocked range has an address in common with `first` to `last`. A range that cannot be parsed blocks its
/// whole space: it is unknown which addresses are in use.
fn blocks(blocked: &BlockedAddressRange, space: &IpSpace, (first, last): (IpAddr, IpAddr)) -> bool {
    if blocked.space.as_deref().is_some_and(|other| other != space.as_str()) {
        return false;
    }
    let parsed = blocked.range.split_once('-').and_then(|(start, end)| {
        Some((start.trim().parse::<IpAddr>().ok()?, end.trim().parse::<IpAddr>().ok()?))
    });
    parsed.is_none_or(|(start, end)| {
        IpFamily::of(start) == IpFamily::of(first) && start <= last && first <= end
    })
}

#[cfg(test)]
mod tests;
