//! Interfaces of functions.

use super::{ETHERNET_MTU, FunctionView, IPOIB_MTU, SysfsTree};
use crate::state::SimRdmaDevice;
use crate::{Error, SimPortState};
use ferroband_model::{Guid, LinkLayer};
use std::path::Path;

impl SysfsTree {
    /// The interface of a port, called `name` now.
    pub(crate) fn write_netdev(
        &self,
        unit: &FunctionView<'_>,
        device: &SimRdmaDevice,
        number: usize,
        name: &str,
    ) -> Result<(), Error> {
        let place = unit.sysfs_path().join("net").join(name);
        let infiniband = unit.hca.link_layer() == LinkLayer::InfiniBand;
        let up = unit.port_state(device, number) == SimPortState::Active;
        let guid = device.port_guids.get(number - 1).copied().unwrap_or(Guid::new(0));
        self.write_file(place.join("type"), if infiniband { 32 } else { 1 })?;
        self.write_file(place.join("address"), hardware_address(infiniband, device.queue_pair, guid))?;
        self.write_file(place.join("mtu"), if infiniband { IPOIB_MTU } else { ETHERNET_MTU })?;
        // Ports count from 1, and these from 0.
        self.write_file(place.join("dev_port"), number - 1)?;
        self.write_file(place.join("dev_id"), format!("{:#x}", number - 1))?;
        self.write_file(place.join("operstate"), if up { "up" } else { "down" })?;
        self.write_file(place.join("carrier"), u8::from(up))?;
        if infiniband {
            self.write_file(place.join("mode"), "datagram")?;
            self.write_file(place.join("pkey"), "0xffff")?;
        }
        let traffic = device.traffic.get(number - 1).copied().unwrap_or_default();
        for (file, value) in [
            ("rx_packets", traffic.received),
            ("tx_packets", traffic.sent),
            ("rx_bytes", traffic.received_bytes),
            ("tx_bytes", traffic.sent_bytes),
            ("rx_errors", 0),
            ("tx_errors", 0),
            ("rx_dropped", 0),
            ("tx_dropped", 0),
        ] {
            self.write_number(place.join("statistics").join(file), value)?;
        }
        self.symlink(place.join("device"), &unit.sysfs_path())?;
        self.symlink(Path::new("class/net").join(name), &place)
    }

    /// Takes the interface away.
    pub(crate) fn remove_netdev(&self, unit: &FunctionView<'_>, name: &str) -> Result<(), Error> {
        self.unlink(Path::new("class/net").join(name))?;
        self.remove_directory(unit.sysfs_path().join("net").join(name))?;
        let _ = std::fs::remove_dir(self.base.join(unit.sysfs_path()).join("net"));
        Ok(())
    }
}

/// IPoIB's address is a queue pair number and the port's GID (RFC 4391, 9.1.1), Ethernet's is made from the
/// GUID.
fn hardware_address(infiniband: bool, queue_pair: u32, guid: Guid) -> String {
    if infiniband {
        let [_, high, middle, low] = queue_pair.to_be_bytes();
        return format!("00:{high:02x}:{middle:02x}:{low:02x}:fe:80:00:00:00:00:00:00:{guid}");
    }
    let [first, second, _, _, _, rest @ ..] = guid.bytes();
    [first, second, 0].iter().chain(&rest).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}
