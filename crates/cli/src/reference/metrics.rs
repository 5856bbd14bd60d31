//! Generates `metrics.md`, the reference of Prometheus metrics.

use super::{markdown_table, page_header};

/// Each row is a metric, its type and its meaning.
const METRICS: &[(&str, &str, &str)] = &[
    ("rdma_port_state", "gauge", "Port state: 1 down, 2 init, 3 armed, 4 active."),
    ("rdma_port_physical_state", "gauge", "Physical port state: 5 is LinkUp."),
    ("rdma_port_lid", "gauge", "LID of the port; 0 if it has none."),
    ("rdma_port_sm_lid", "gauge", "LID of the subnet manager; 0 if there is none."),
    (
        "rdma_<counter>_total",
        "counter",
        "Each file in the port's sysfs directories `counters` and `hw_counters`, by its lower-case name: `rdma_port_xmit_data_total`, `rdma_symbol_error_total`, `rdma_out_of_sequence_total`, …",
    ),
    (
        "rdma_rx_vport_…_total, rdma_tx_vport_…_total",
        "counter",
        "The driver's virtual port statistics (ethtool).",
    ),
    (
        "rdma_rx_pause_total, rdma_tx_pause_total, rdma_rx_discards_total, rdma_tx_discards_total",
        "counter",
        "The driver's statistics per priority, with the label `priority`.",
    ),
    (
        "rdma_vport_speed_mbps_total",
        "counter",
        "Port rate in Mb/s. Named like a counter because Spiderpool's dashboards expect it.",
    ),
    ("rdma_device_tos_total", "counter", "Configured traffic class of the device."),
    (
        "ferroband_controller_passes_total, ferroband_controller_failures_total",
        "counter",
        "Passes of a controller of the daemon, and how many of them failed. The label `controller` is its name.",
    ),
    (
        "ferroband_controller_duration_seconds_total",
        "counter",
        "Total duration of the passes, with the label `controller`.",
    ),
    (
        "ferroband_watch_restarts_total",
        "counter",
        "Restarts of a watch of API objects after an error, with the label `watch`.",
    ),
];

const LABELS: &[(&str, &str)] = &[
    ("node_name", "The node."),
    ("ifname", "The RDMA device."),
    ("net_dev_name", "The network interface of the device."),
    ("port", "Port number."),
    ("is_root", "Whether it is a physical function."),
    ("node_guid, sys_image_guid", "The device's GUIDs."),
    ("rdma_parent_name", "The interface of the physical function."),
    (
        "pod_namespace, pod_name",
        "The pod that uses the device, if any; the device may be in the pod's network namespace.",
    ),
    (
        "owner_api_version, owner_kind, owner_namespace, owner_name",
        "The pod's owner: DaemonSet, Deployment, Job, …",
    ),
];

pub fn page() -> String {
    let mut text = page_header(
        "Metrics",
        "The node daemon serves metrics at `http://ADDRESS/metrics` if it is started with `--metrics-address`. \
         Names and labels are\ncompatible with Spiderpool's RDMA metrics and dashboards.",
    );
    text.push('\n');
    let rows = METRICS.iter().map(|(name, kind, says)| [format!("`{name}`"), (*kind).into(), (*says).into()]);
    text.push_str(&markdown_table(["Metric", "Type", "Meaning"], rows));
    text.push_str("\n## Labels\n\n");
    text.push_str(&markdown_table(
        ["Label", "Meaning"],
        LABELS.iter().map(|(name, says)| [format!("`{name}`"), (*says).into()]),
    ));
    text
}
