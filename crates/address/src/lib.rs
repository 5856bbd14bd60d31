//! IP address management for pods: a pure allocation engine over address blocks, and the Whereabouts and
//! Spiderpool configuration front ends.
//!
//! This crate does no I/O, does not wait and reads no clock. The engine takes the known blocks and the requests
//! and returns calls to the API server. The caller executes them and returns their results.
//!
//! ```text
//!  `ipam` object ──whereabouts──▶ AddressPool ─┐
//!  pools, annotations ──spiderpool──▶ ─────────┤
//!                                              ├─ NodeAllocator ──AddressPlanner──▶ calls ──▶ API server
//!  known blocks: BlockView ────────────────────┘    ▲   │                                       │
//!                                                   │   └─▶ replies: addresses, refusals        │
//!                                                   └──────── blocks, conflicts ◀───────────────┘
//! ```
//!
//! An *IP space* is a set of addresses in which each address has at most one owner. It is divided into aligned
//! *blocks* of 16 addresses. Each block is one API object, named after the space and its first address, so two
//! nodes that allocate the same address write the same object and the API server lets one of them win. There are
//! no locks: when a node fails, every address it has not assigned is still free for all nodes.
//!
//! A node knows its own blocks, and of others only what it needed to read. It may claim whole blocks in advance (Calico:
//! block affinity), so that its writes do not conflict with other nodes. Claimed blocks strand addresses, so nodes claim
//! them only while the pool has plenty of free blocks.

mod batch;
mod block;
mod block_index;
mod block_view;
mod chooser;
mod draft;
mod error;
mod existing;
mod in_memory;
mod ip_space;
mod json_options;
mod labels;
mod node_allocator;
mod planner;
mod pool;
mod range;
mod requested;
pub mod spiderpool;
mod sticky;
pub mod whereabouts;

pub use batch::{
    AddressAssignment, AddressRelease, AddressRequest, AssignmentPlan, BlockAddition, BlockWrite,
    ReleasePlan, ReleasedAddress, RequestRefusal,
};
pub use block::{AddressAllocation, AllocationOwner, IP_BLOCK_SIZE, IpBlock, IpBlockId, OwnerPod};
pub use block_index::{IndexedBlock, InvalidIndexedBlock};
pub use block_view::{BlockSummary, BlockView, ResourceVersion};
pub use error::{AddressHolder, Error};
pub use in_memory::InMemoryBlocks;
pub use ip_space::{IpFamily, IpSpace};
pub use labels::{BlockScope, REGION_LABEL, SPACE_LABEL, node_label, region_label, space_label};
pub use node_allocator::{
    AllocationReply, BlockCall, BlockedAddresses, CallOutcome, IpWithGateway, NodeAllocator, PodName,
    PoolGate, SandboxRequest,
};
pub use planner::AddressPlanner;
pub use pool::AddressPool;
pub use range::{Exclusion, IpRange, IpamWarning};
pub use requested::{RequestedAddress, restrict_to_requested};
pub use sticky::{StickyAddress, StickyRecord};
