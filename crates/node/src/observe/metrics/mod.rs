//! Counters of the RDMA devices, for Prometheus.
//!
//! Names and labels are Spiderpool's, so its dashboards go on working: `rdma_` + the kernel's name + `_total`. What it
//! lacks is added under the same rule: the ports' own counters (data, packets, errors), which InfiniBand panels need.
//!
//! ```text
//! GET /metrics ──serve──▶ counters: sysfs, read at that moment, no program started ──text──▶ exposition format
//!                            ├─ pods: who holds the function, from the kubelet's notes and the cache of pods
//!                            ├─ sandbox: devices that live in a pod's namespace
//!                            └─ vport: what the drivers of their interfaces count
//! ```

mod counters;
mod exporter;
mod exposition;
mod pods;
mod sandbox;
#[cfg(test)]
mod tests;
mod vport;

pub use counters::RdmaCounterCollector;
pub use exporter::MetricsExporter;
pub use exposition::{MetricFamilies, MetricKind};
pub use pods::{PodWithController, PodsByPciAddress};
pub use sandbox::{MetricsSandbox, list_sandboxes};
