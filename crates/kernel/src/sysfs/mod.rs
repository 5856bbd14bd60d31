//! Hardware inventory from a sysfs tree.
//!
//! The functions work on any tree below a [`crate::Root`], hence also on test fixtures and simulated hardware.
//!
//! ```text
//! class/infiniband/mlx5_0 ── device ──▶ bus/pci/devices/0000:86:00.0 ── net/ibs5f0
//!      ports/1/…                                └─ virtfn0, virtfn1, …
//! class/infiniband_verbs/uverbs0   ┐
//! class/infiniband_mad/umad0       ├─ character devices of the RDMA device
//! class/infiniband_mad/issm0       ┘
//!
//! counters ── of a port       topology, gpu ── PCIe tree       driver ── attributes that are written
//! ```

mod attribute;
pub mod chardev;
pub mod counters;
pub mod driver;
pub mod gpu;
pub mod infiniband;
pub mod net;
pub mod pci;
#[cfg(test)]
mod tests;
pub mod topology;
