//! Port counters, by the kernel's names.

use super::{FunctionView, SysfsTree};
use crate::Error;
use crate::state::{SimRdmaDevice, TrafficCounters};
use std::collections::BTreeMap;

/// Standard InfiniBand counters (pma_attrs of core/sysfs.c).
const PORT_COUNTERS: [&str; 21] = [
    "VL15_dropped",
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "multicast_rcv_packets",
    "multicast_xmit_packets",
    "port_rcv_constraint_errors",
    "port_rcv_data",
    "port_rcv_errors",
    "port_rcv_packets",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_constraint_errors",
    "port_xmit_data",
    "port_xmit_discards",
    "port_xmit_packets",
    "port_xmit_wait",
    "symbol_error",
    "unicast_rcv_packets",
    "unicast_xmit_packets",
];

/// Counters added by mlx5 (drivers/infiniband/hw/mlx5/counters.c).
const HARDWARE_COUNTERS: [&str; 25] = [
    "duplicate_request",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
    "out_of_buffer",
    "out_of_sequence",
    "packet_seq_err",
    "req_cqe_error",
    "req_cqe_flush_error",
    "req_remote_access_errors",
    "req_remote_invalid_request",
    "resp_cqe_error",
    "resp_cqe_flush_error",
    "resp_local_length_error",
    "resp_remote_access_errors",
    "rnr_nak_retry_err",
    "roce_adp_retrans",
    "roce_slow_restart",
    "rp_cnp_handled",
    "rp_cnp_ignored",
    "rx_atomic_requests",
    "rx_icrc_encapsulated",
    "rx_read_requests",
    "rx_write_requests",
];

/// Whether a counter of this name exists.
pub(crate) fn is_known(name: &str) -> bool {
    PORT_COUNTERS.contains(&name) || HARDWARE_COUNTERS.contains(&name)
}

/// Adds traffic to the counters of a port. Data is counted in units of four bytes.
pub(crate) fn add_traffic(counters: &mut BTreeMap<String, u64>, traffic: TrafficCounters) {
    for (name, more) in [
        ("port_rcv_packets", traffic.received),
        ("unicast_rcv_packets", traffic.received),
        ("port_xmit_packets", traffic.sent),
        ("unicast_xmit_packets", traffic.sent),
        ("port_rcv_data", traffic.received_bytes / 4),
        ("port_xmit_data", traffic.sent_bytes / 4),
    ] {
        if more > 0 {
            *counters.entry(name.to_owned()).or_default() += more;
        }
    }
}

impl SysfsTree {
    /// Writes the counter files of a port. Files whose value is unchanged are not touched.
    pub(crate) fn write_counters(
        &self,
        view: &FunctionView<'_>,
        device: &SimRdmaDevice,
        number: usize,
    ) -> Result<(), Error> {
        let path = view.device_path(device).join("ports").join(number.to_string());
        let none = BTreeMap::new();
        let counters = device.counters.get(number - 1).unwrap_or(&none);
        let value = |name: &str| counters.get(name).copied().unwrap_or_default();
        for name in PORT_COUNTERS {
            self.write_number(path.join("counters").join(name), value(name))?;
        }
        for name in HARDWARE_COUNTERS {
            self.write_number(path.join("hw_counters").join(name), value(name))?;
        }
        self.write_file(path.join("hw_counters/lifespan"), 10)
    }
}
