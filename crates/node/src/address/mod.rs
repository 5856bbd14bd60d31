//! Stage address: assigns addresses to pods and records them in AddressBlocks, many in one write.
//!
//! ```text
//! ADD, DEL ──▶ AllocatorHandle ──▶ BatchWriter ──calls──▶ BlockStore ──▶ API server
//!                                    │  ▲                    │ blocks, conflicts
//!                    AssignmentGate ─┤  └────────────────────┘
//!                                    └─ OwnBlocks: NodeAllocator (ferroband-address), which plans the calls
//! ```
//!
//! A single task writes all blocks. Requests that arrive while it waits for the API server go into its next batch,
//! with one write per block, so the throughput does not depend on the latency of one write. The node knows only the blocks
//! that it uses: no watch tells it about the others.

mod allocator;
mod batch_writer;
mod detection;
mod gate;
mod own_blocks;
mod store;
#[cfg(test)]
mod tests;

pub use allocator::{AllocatorHandle, create_allocator};
pub use batch_writer::BatchWriter;
pub use detection::{DetectionFinding, DetectionMode, DetectionSettings, QUARANTINE_UID, detect};
pub use gate::{AssignmentGate, GateInputs};
pub use own_blocks::OwnBlocks;
pub use store::{ApiBlockStore, BlockStore};
