//! Addresses for pods: a pure engine over granules, and the front ends that users configure it through.
//!
//! Nothing here talks to Kubernetes, waits or looks at a clock. The engine is given what is known and answers
//! with the writes that would make it so; whoever calls it carries them out by compare-and-swap.
//!
//! ```text
//!  `ipam` object ──whereabouts──▶ Pool ─┐
//!  pools, annotations ──spiderpool──▶ ──┤
//!                                       ├─ Planner::assign ──▶ writes, one per granule ──▶ API server
//!  granules known so far ────────▶ View ┘          │               │ refused: look again, plan the rest
//!                                                  └─▶ answers: which address serves which request
//! ```
//!
//! A *space* is a set of addresses in which each has at most one owner. It is cut into aligned *granules* of 16
//! addresses; a granule is one object whose name follows from space and first address, so two nodes that want
//! the same address always meet at the same object and the API server decides. No lock is needed, and a node
//! that dies leaves nothing locked: every address it did not assign stays free for all.
//!
//! A node may hold whole granules ahead of need, so that its pods never meet another node's. That costs
//! addresses, so it is done only while the pool has plenty.

mod batch;
mod block;
mod block_view;
mod chooser;
mod compact;
mod draft;
mod error;
mod etcd_restore;
mod existing;
mod family;
mod ip_space;
mod json_options;
mod planner;
mod pool;
mod range;
mod release;
pub mod spiderpool;
pub mod whereabouts;

pub use batch::{AddressAssignment, AddressRequest, AssignmentPlan, BlockWrite, RequestRefusal};
pub use block::{AddressAllocation, AllocationOwner, IP_BLOCK_SIZE, IpBlock, IpBlockId, OwnerPod};
pub use block_view::{BlockList, BlockSummary, BlockView, ResourceVersion};
pub use error::{AddressHolder, Error};
pub use family::IpFamily;
pub use ip_space::IpSpace;
pub use planner::AddressPlanner;
pub use pool::AddressPool;
pub use range::{Exclusion, IpRange, IpamWarning};
pub use release::{AddressRelease, ReleasePlan, ReleasedAddress};
