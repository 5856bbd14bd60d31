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

mod choose;
mod conditions;
mod decide;
mod judge;
mod merge;
mod pool;
mod span;
mod stale;
#[cfg(test)]
mod tests;
mod work;

pub use choose::{Chosen, choose};
pub use conditions::{changed, condition};
pub use decide::{Decision, NodeView, decide};
pub use judge::{Finding, judge};
pub use merge::merge;
pub use pool::{Budget, Pools};
pub use span::Span;
pub use work::{Labels, Policies, Seen};
