//! Counters of devices and ports.

use super::attribute;
use crate::{Error, Root};
use std::collections::BTreeMap;
use std::path::Path;

/// Counters of a port, keyed by the kernel's names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Standard InfiniBand counters (`counters`): `port_xmit_data`, `symbol_error`, `link_downed`. Data is counted
    /// in units of four bytes.
    pub port: BTreeMap<String, u64>,
    /// Driver-specific counters (`hw_counters`): `out_of_sequence`, `np_cnp_sent`, `rx_icrc_encapsulated`.
    pub hardware: BTreeMap<String, u64>,
}

/// Counters of a port of the RDMA device `device`; empty if the port does not exist.
pub fn port(root: &Root, device: &str, port: u32) -> Result<PortCounters, Error> {
    let directory = root.sys("class/infiniband").join(device).join("ports").join(port.to_string());
    Ok(PortCounters {
        port: numbers(&directory.join("counters"))?,
        hardware: numbers(&directory.join("hw_counters"))?,
    })
}

/// Device-wide counters of the RDMA device `device`.
pub fn device(root: &Root, device: &str) -> Result<BTreeMap<String, u64>, Error> {
    numbers(&root.sys("class/infiniband").join(device).join("hw_counters"))
}

/// Reads all files of the directory that contain a number. Files that cannot be read now (`N/A (no PMA)`, or a
/// port that is being reset) are omitted, because a zero would be wrong.
fn numbers(directory: &Path) -> Result<BTreeMap<String, u64>, Error> {
    let mut numbers = BTreeMap::new();
    for name in attribute::list_names(directory)? {
        // `lifespan` is a setting, not a counter: the time in milliseconds for which the driver may return cached
        // values.
        if name == "lifespan" {
            continue;
        }
        if let Ok(Some(text)) = attribute::read_text(&directory.join(&name)) {
            numbers.extend(text.parse().ok().map(|value| (name, value)));
        }
    }
    Ok(numbers)
}
