//! Stage configure: applies the spec of this node's SriovNetworkNodeState to the hardware and reports its status.
//!
//! ```text
//!  SriovNetworkNodeState.spec ──▶ desired ───────────────────────┐
//!  kernel, firmware, kubelet, original states ──observe──▶ state ─┼─diff──▶ ordered actions ──apply──▶ observe again,
//!  GUID file, GUID source ──▶ desired GUIDs ──────────────────────┘    │                               until none is left
//!                                                                      └▶ waiting actions:
//!      a reset of an adapter waits until its holders are drained (status.holders; the cluster drains them)
//!      a change to a function in use waits until its pod is gone
//!      firmware and RDMA mode may wait for a reboot, of which there is one per configuration
//!
//!  functions that are ready ──▶ pools: advertised at once; functions that are about to change are withdrawn
//!  actions ──▶ status.pendingActions, before they run
//! ```
//!
//! Only `apply` changes the node. Only the original states are kept between passes. Each pass observes the node and
//! applies what is missing, so a daemon that is killed at any point continues after its restart. The original state of
//! an adapter is saved before the first change and removed after all changes are undone. An adapter that has no
//! original state and is not selected by a policy is never changed.

mod action;
mod apply;
mod configurator;
mod desired;
mod desired_guids;
mod diff;
mod drain_request;
mod dry_run;
mod guid_file;
mod guids;
mod object;
mod observe;
mod original_state;
mod ready_pools;
mod reboot;
mod reconcile;
mod report;
mod start;
#[cfg(test)]
mod tests;

pub use action::{Action, VfDriver, Wait, WaitingAction};
pub use apply::ActionOutcome;
pub use configurator::{AppliedActions, ConfigurationPass, Configurator};
pub use desired::{DesiredAdapter, DesiredNodeConfig, DesiredVfGroup};
pub use desired_guids::{DesiredGuids, GuidChooser};
pub use diff::{AdapterPlan, NodeDiff, diff, plan_adapter};
pub use dry_run::{DryRun, dry_run};
pub use guid_file::GuidFile;
pub use guids::{DerivedGuids, GuidSource, PfIdentity};
pub use observe::{AdapterInterface, ObservedAdapter, ObservedFirmware, ObservedFunction, ObservedNode};
pub use original_state::{AdapterOriginalState, OriginalStateStore};
pub use start::{ConfiguratorInputs, start_configurator};
