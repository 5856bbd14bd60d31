//! What the node daemon tells Prometheus.

use super::{markdown_table, page_header};

/// Name, type, and what it counts.
const METRICS: &[(&str, &str, &str)] = &[
    ("rdma_port_state", "gauge", "State of the port: 1 down, 2 init, 3 armed, 4 active."),
    ("rdma_port_physical_state", "gauge", "Physical state of the port: 5 is a link."),
    ("rdma_port_lid", "gauge", "Local identifier of the port; 0 without one."),
    ("rdma_port_sm_lid", "gauge", "Local identifier of the subnet manager; 0 without one."),
    (
        "rdma_<counter>_total",
        "counter",
        "Each file of the port's `counters` and `hw_counters` in sysfs, by its name in lower case: `rdma_port_xmit_data_total`, `rdma_symbol_error_total`, `rdma_out_of_sequence_total`, …",
    ),
    (
        "rdma_rx_vport_…_total, rdma_tx_vport_…_total",
        "counter",
        "The driver's statistics (ethtool) of the virtual port.",
    ),
    (
        "rdma_rx_pause_total, rdma_tx_pause_total, rdma_rx_discards_total, rdma_tx_discards_total",
        "counter",
        "The driver's statistics by priority, with the label `priority`.",
    ),
    (
        "rdma_vport_speed_mbps_total",
        "counter",
        "The rate of the port in megabits a second; a counter by name only, as Spiderpool's dashboards expect it.",
    ),
    ("rdma_device_tos_total", "counter", "Traffic class that the device is set to."),
];

const LABELS: &[(&str, &str)] = &[
    ("node_name", "The node."),
    ("ifname", "The RDMA device."),
    ("net_dev_name", "Its interface."),
    ("port", "The port's number."),
    ("is_root", "Whether it is a physical function."),
    ("node_guid, sys_image_guid", "The device's GUIDs."),
    ("rdma_parent_name", "The interface of its physical function."),
    (
        "pod_namespace, pod_name",
        "The pod that has the device, where one does; the device may be in the pod's network namespace.",
    ),
    (
        "owner_api_version, owner_kind, owner_namespace, owner_name",
        "What the pod belongs to: its DaemonSet, Deployment, Job, …",
    ),
];

pub fn page() -> String {
    let mut text = page_header(
        "Metrics",
        "The node daemon serves them at `http://ADDRESS/metrics` when it is started with `--metrics-address`. Names and labels \
         are those of\nSpiderpool's RDMA metrics, so that its dashboards work.",
    );
    text.push('\n');
    let rows = METRICS.iter().map(|(name, kind, says)| [format!("`{name}`"), (*kind).into(), (*says).into()]);
    text.push_str(&markdown_table(["Metric", "Type", "Says"], rows));
    text.push_str("\n## Labels\n\n");
    text.push_str(&markdown_table(
        ["Label", "Says"],
        LABELS.iter().map(|(name, says)| [format!("`{name}`"), (*says).into()]),
    ));
    text
}
