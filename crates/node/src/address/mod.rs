//! Stage address: addresses are assigned in etcd, many in one write.
//!
//! ```text
//! ADD, DEL ──▶ Desk ──orders──▶ Committer ──plan (ferroband-address)──▶ Store ──▶ API server
//!                                   │  ▲                                  │ 409: read that granule, plan again
//!                       own writes  ▼  │ what is known                    │ away: wait, try again
//! watch of the granules ─────────▶ Ledger
//! ```
//!
//! One task commits. Whatever is ordered while it waits for the API server goes into its next round together, one
//! write for each granule, so the rate does not depend on how long one write takes.

mod allocator;
mod batch;
mod batch_writer;
mod block_cache;
mod detection;
mod evidence;
mod queue;
pub mod sandboxes;
mod store;
#[cfg(test)]
mod tests;

pub use allocator::{AllocatorHandle, IpWithGateway, create_allocator};
pub use batch_writer::BatchWriter;
pub use block_cache::AddressBlockCache;
pub use detection::{DetectionFinding, DetectionMode, DetectionSettings, detect};
pub use evidence::{Evidence, QUARANTINE_UID};
pub use store::{ApiBlockStore, BlockStore, BlockStoreError};
