//! Policy controller: turns SriovNetworkNodePolicies into the desired VFs of every node.
//!
//! Only [`PolicyController`] does I/O: it reads the caches and writes the specs and conditions that differ
//! from the desired ones. All other functions are pure.
//!
//! ```text
//!  SriovNetworkNodePolicy ─┐                                   ┌─▶ SriovNetworkNodeState.spec, one for each node
//!  Node labels ────────────┼─select─▶ claims ─validate─▶ merge ┤
//!  NodeState.status (NICs) ┘             │   (by age)  (by priority)
//!  SriovNetworkPoolConfig ── node_pools ─┴───────────────────────▶ conditions and events of policies and pools
//! ```
//!
//! If two policies select the same VFs by name, the older one applies and the other one reports the conflict in its
//! conditions. Policies that overlap otherwise are merged by priority, as in the SR-IOV operator.

mod caches;
mod conditions;
mod controller;
mod decide;
mod merge;
mod nic_selection;
mod node_pools;
mod node_state_gc;
#[cfg(test)]
mod tests;
mod validate;
mod vf_range;

pub use caches::PolicyCaches;
pub use conditions::{new_condition, updated_conditions};
pub use controller::PolicyController;
pub use decide::{PolicyDecision, PolicyNode, decide};
pub use merge::merge;
pub use nic_selection::{SelectedNic, select_nics};
pub use node_pools::{DrainBudget, NodePools};
pub use validate::{PolicyFinding, validate};
pub use vf_range::VfRange;
