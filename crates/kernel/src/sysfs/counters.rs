//! What went through ports and interfaces, and what went wrong.

use super::attribute;
use crate::{Error, Root};
use std::collections::BTreeMap;
use std::path::Path;

/// The counters of one port, by the kernel's names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Those that every InfiniBand port has (`counters`): `port_xmit_data`, `symbol_error`, `link_downed`.
    /// Data is counted in units of four bytes.
    pub port: BTreeMap<String, u64>,
    /// Those that the driver adds (`hw_counters`): `out_of_sequence`, `np_cnp_sent`, `rx_icrc_encapsulated`.
    pub hardware: BTreeMap<String, u64>,
}

/// The counters of a port of the RDMA device called `device`; empty when it is not there.
pub fn port(root: &Root, device: &str, port: u32) -> Result<PortCounters, Error> {
    let directory = root.sys("class/infiniband").join(device).join("ports").join(port.to_string());
    Ok(PortCounters {
        port: numbers(&directory.join("counters"))?,
        hardware: numbers(&directory.join("hw_counters"))?,
    })
}

/// The counters that the RDMA device called `device` has as a whole.
pub fn device(root: &Root, device: &str) -> Result<BTreeMap<String, u64>, Error> {
    numbers(&root.sys("class/infiniband").join(device).join("hw_counters"))
}

/// The statistics of the interface called `netdev`: `rx_bytes`, `tx_dropped`.
pub fn netdev(root: &Root, netdev: &str) -> Result<BTreeMap<String, u64>, Error> {
    numbers(&root.sys("class/net").join(netdev).join("statistics"))
}

/// Every file in the directory that holds a number. One that cannot be read now (`N/A (no PMA)`, or a port
/// that is being reset) is left out: a missing sample is true, a zero is not.
fn numbers(directory: &Path) -> Result<BTreeMap<String, u64>, Error> {
    let mut numbers = BTreeMap::new();
    for name in attribute::list_names(directory)? {
        // How long drivers may answer from memory, in milliseconds; a setting among the counters.
        if name == "lifespan" {
            continue;
        }
        let value = attribute::read_text(&directory.join(&name))?.and_then(|text| text.parse().ok());
        numbers.extend(value.map(|value| (name, value)));
    }
    Ok(numbers)
}
