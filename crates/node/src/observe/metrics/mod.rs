//! Prometheus metrics of the RDMA devices.
//!
//! Names and labels are those of Spiderpool, so its dashboards keep working: `rdma_` + the kernel's name + `_total`.
//! The port counters that Spiderpool lacks (data, packets, errors), which InfiniBand panels need, follow the same
//! rule.
//!
//! ```text
//! GET /metrics ──exporter──▶ counters: read from sysfs per scrape, no process is started ──exposition──▶ text
//!                               ├─ pods: the pod that holds a device, from the kubelet's checkpoint and the pod cache
//!                               ├─ sandbox: devices in the network namespaces of pods
//!                               └─ vport: driver statistics of the devices' network interfaces
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
