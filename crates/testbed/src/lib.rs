//! What tests of partitions stand on. Never part of the product.
//!
//! ```text
//! ufm::Simulator   a UFM over HTTPS with a memory, manners and faults ──▶ its log ──▶ audit
//! painter::Painter  its partitions, written to the tables of simulated ports
//! opensm::Bed      a real opensm over ibsim: a fabric in a file, judged by smpquery
//! ```

pub mod audit;
pub mod opensm;
pub mod pkey_table_writer;
pub mod ufm;
