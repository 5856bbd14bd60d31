//! Stage address: assigns addresses to pods and records them in AddressBlocks, many in one write.
//!
//! ```text
//! ADD, DEL ──▶ AllocatorHandle ──▶ BatchWriter ──plan (ferroband-address)──▶ BlockStore ──▶ API server
//!                                      │  ▲                                     │ 409: read that block, plan again
//!                          own writes  ▼  │ known blocks                        │ unavailable: wait, retry
//! watch of AddressBlocks ───────▶ AddressBlockCache
//! ```
//!
//! A single task writes all blocks. Requests that arrive while it waits for the API server go into its next batch,
//! with one write per block, so the throughput does not depend on the latency of one write.

mod allocator;
mod batch;
mod batch_writer;
mod block_cache;
mod detection;
mod gate;
mod store;
#[cfg(test)]
mod tests;

pub use allocator::{AllocatorHandle, IpWithGateway, create_allocator};
pub use batch_writer::BatchWriter;
pub use block_cache::AddressBlockCache;
pub use detection::{DetectionFinding, DetectionMode, DetectionSettings, QUARANTINE_UID, detect};
pub use gate::{AssignmentGate, GateInputs};
pub use store::{ApiBlockStore, BlockStore, BlockStoreError};
