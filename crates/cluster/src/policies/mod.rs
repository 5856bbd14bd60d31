//! Policies become node states: which virtual functions every node shall have.
//!
//! Pure but for [`Policies`], which looks at the caches and writes what differs.
//!
//! ```text
//!  SriovNetworkNodePolicy ─┐                                   ┌─▶ SriovNetworkNodeState.spec, one for each node
//!  Node labels ────────────┼─choose─▶ claims ─judge─▶ merge ───┤
//!  NodeState.status (NICs) ┘             │  (by age)  (by priority)
//!  SriovNetworkPoolConfig ── pool ───────┴───────────────────────▶ conditions and events on what people wrote
//! ```
//!
//! Two policies that want the same functions by name are told apart by age: what stood first stays, the other one says so
//! in its conditions. Policies that overlap otherwise are merged by priority, as the SR-IOV operator does it.

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

pub use conditions::{new_condition, updated_conditions};
pub use controller::{NodeLabels, PolicyCaches, PolicyController};
pub use decide::{PolicyDecision, PolicyNode, decide};
pub use merge::merge;
pub use nic_selection::{SelectedNic, select_nics};
pub use node_pools::{DrainBudget, NodePools};
pub use validate::{PolicyFinding, validate};
pub use vf_range::VfRange;
