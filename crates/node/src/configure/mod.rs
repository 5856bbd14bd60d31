//! Stage configure: applies the spec of this node's SriovNetworkNodeState to the hardware and reports its status.
//!
//! ```text
//!  SriovNetworkNodeState.spec ──▶ DesiredNodeConfig ─┐
//!  hardware ──▶ ObservedNode ────────────────────────┼─▶ AdapterChanges, and the functions they disrupt
//!  original states (on disk) ────────────────────────┘        │
//!                                                      held by pods? ──yes──▶ a reset of the adapter: status.holders;
//!                                                             │                 the cluster drains them
//!                                                             │no             a change to one function: deferred until
//!                                                             │                 its pod is gone, and reported
//!                                                           apply ──▶ observe again, until there are no changes
//!  firmware, RDMA mode ──system──▶ set at once; one reboot is requested if needed
//!
//!  functions that are ready ──▶ pools: advertised at once; functions that are about to change are withdrawn
//! ```
//!
//! Only the original states are kept between passes. Each pass reads the hardware and applies what is missing, so a
//! daemon that is killed at any point continues after its restart. The original state of an adapter is saved before
//! the first change and removed after all changes are undone. An adapter that has no original state and is not
//! selected by a policy is never changed.

mod apply;
mod card;
mod desk;
mod drain_request;
mod due;
mod guid_file;
mod guids;
mod held;
mod keep;
mod object;
mod offer;
mod reboot;
mod record;
mod status;
mod survey;
mod system;
#[cfg(test)]
mod tests;
mod vf_plan;
mod want;

pub use desk::{ConfigurationPass, Configurator};
pub use due::{AdapterChanges, AdapterPlan, plan_changes};
pub use guid_file::GuidFile;
pub use guids::{DerivedGuids, GuidSource, PassGuids, PfIdentity};
pub use held::DeferredVfChange;
pub use keep::{ConfiguratorInputs, start_configurator};
pub use record::{AdapterOriginalState, OriginalStateStore};
pub use survey::{AdapterInterface, ObservedAdapter, ObservedFunction, ObservedNode, observe_node};
pub use vf_plan::{VfChanges, VfDriver};
pub use want::{DesiredAdapter, DesiredNodeConfig, DesiredVfGroup};
