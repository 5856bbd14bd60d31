//! Test infrastructure. Not part of the product.
//!
//! ```text
//! ufm::UfmSimulator                   a UFM over HTTPS with partitions, version quirks and faults ──▶ log ──▶ audit
//! pkey_table_writer::PKeyTableWriter  writes its partitions to the P_Key tables of simulated ports
//! fake_api::FakeApi                   an API server in memory, which records every request
//! UnmanagedPartitions                 partition management that changes nothing
//! opensm::OpensmTestbed               a real opensm on a fabric simulated by ibsim, checked with smpquery
//! UnmanagedPartitions                 a node without partition management
//! ```

pub mod audit;
pub mod fake_api;
pub mod opensm;
pub mod pkey_table_writer;
pub mod ufm;
mod unmanaged_partitions;

pub use unmanaged_partitions::UnmanagedPartitions;
