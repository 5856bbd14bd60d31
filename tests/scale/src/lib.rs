//! What `cargo xtask bench scale` runs outside its own process. Each part prints one line of JSON per result.
//!
//! ```text
//! model    nodes ──▶ AllocatorHandle, BatchWriter (crates/node) ──▶ SimulatedStore        simulated clock, one thread
//! members  commands on standard input ──▶ Member: caches, allocator, NodePartitions ──▶ API server of a lab
//! leader   `ferroband cluster` ──▶ LoadApiServer: 10,000 NodePartitions, 25,000 AddressBlocks; simulated UFM
//! ```
//!
//! It is a crate of its own, because `xtask` must build without the Kubernetes client.

pub mod leader;
pub mod members;
pub mod model;
mod percentile;

pub use percentile::percentile_millis;
