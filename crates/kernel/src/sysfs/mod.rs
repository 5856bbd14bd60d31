//! What the machine has, read from a sysfs tree.
//!
//! A tree under a [`crate::Root`] is all it takes, so inventories run on fixtures and on simulated hardware.
//!
//! ```text
//! class/infiniband/mlx5_0 ── device ──▶ bus/pci/devices/0000:86:00.0 ── net/ibs5f0
//!      ports/1/…                                └─ virtfn0, virtfn1, …
//! class/infiniband_verbs/uverbs0   ┐
//! class/infiniband_mad/umad0       ├─ the device files that belong to it
//! class/infiniband_mad/issm0       ┘
//!
//! counters, table ── of a port       topology, gpu ── on the PCIe tree       driver ── the few things written
//! ```

mod attribute;
pub mod chardev;
pub mod counters;
pub mod driver;
pub mod gpu;
pub mod infiniband;
pub mod net;
pub mod pci;
pub mod port_tables;
#[cfg(test)]
mod tests;
pub mod topology;
#[cfg(test)]
mod topology_tests;
