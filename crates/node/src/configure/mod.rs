//! Stage configure: the node is brought to what its SriovNetworkNodeState says, and says there what it is.
//!
//! ```text
//!  SriovNetworkNodeState.spec ──want──┐
//!  hardware ──survey──▶ Adapter ──────┼─due─▶ Due: what is to be done, and which functions must be free for it
//!  records ── what was before us ─────┘        │
//!                                        holders? ──yes──▶ told in the state; the cluster daemon drains them
//!                                              │no
//!                                            apply ──▶ survey again, until nothing is due
//!  firmware, RDMA mode ──system──▶ set at once; a reboot is asked for where it takes one, once
//!
//!  what is right already ──▶ pools: the kubelet is offered it at once, and what is about to change no longer
//! ```
//!
//! Nothing is remembered between two passes but the records: each pass looks at the hardware and does what is missing. So
//! a daemon that is killed anywhere goes on where it was. A record is written before the first change to an adapter and
//! removed after the last one is undone; an adapter without a record is never touched unless a policy selects it.

mod apply;
mod card;
mod desk;
mod due;
mod guids;
mod held;
mod keep;
mod object;
mod offer;
mod reboot;
mod record;
mod survey;
mod system;
#[cfg(test)]
mod tests;
mod want;

pub use desk::{ConfigurationPass, Configurator};
pub use due::{AdapterChanges, VfChanges, VfDriver, plan_changes};
pub use guids::{DerivedGuids, GuidFile, GuidSource, PfIdentity};
pub use keep::{ConfiguratorInputs, start_configurator};
pub use record::{AdapterOriginalState, OriginalStateStore};
pub use survey::{AdapterInterface, ObservedAdapter, ObservedFunction, ObservedNode, observe_node};
pub use want::{DesiredAdapter, DesiredNodeConfig, DesiredVfGroup};
