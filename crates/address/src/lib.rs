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

mod assign;
mod batch;
mod choose;
mod draft;
mod error;
mod family;
mod granule;
mod kept;
mod options;
mod packed;
mod pool;
mod range;
mod release;
mod restored;
mod space;
pub mod spiderpool;
mod view;
pub mod whereabouts;

pub use assign::Planner;
pub use batch::{Answer, Plan, Refusal, Request, Write};
pub use error::{Error, Holding};
pub use family::Family;
pub use granule::{Entry, GRANULE_SIZE, Granule, GranuleId, Holder, Owner};
pub use pool::Pool;
pub use range::{Exclusion, Range, Warning};
pub use release::{Freed, Release, ReleasePlan};
pub use space::Space;
pub use view::{Listed, Outline, Version, View};
