//! Network interfaces of functions.

use super::{ETHERNET_MTU, FunctionView, IPOIB_MTU, SysfsTree};
use crate::state::SimRdmaDevice;
use crate::{Error, SimPortState};
use ferroband_model::{Guid, LinkLayer};
use std::path::Path;

impl SysfsTree {
    /// Writes the interfaces of all ports with their current names.
    pub(crate) fn write_netdevs(&self, view: &FunctionView<'_>, device: &SimRdmaDevice) -> Result<(), Error> {
        let netdevs = (1..).zip(&device.netdevs);
        let mut named = netdevs.filter_map(|(number, name)| Some((number, name.as_deref()?)));
        named.try_for_each(|(number, name)| self.write_netdev(view, device, number, name))
    }

    /// Writes the interface of a port with its current name.
    pub(crate) fn write_netdev(
        &self,
        view: &FunctionView<'_>,
        device: &SimRdmaDevice,
        number: usize,
        name: &str,
    ) -> Result<(), Error> {
        let path = view.sysfs_path().join("net").join(name);
        let infiniband = view.hca.link_layer() == LinkLayer::InfiniBand;
        let up = view.port_state(device, number) == SimPortState::Active;
        let guid = device.port_guids.get(number - 1).copied().unwrap_or(Guid::new(0));
        self.write_file(path.join("type"), if infiniband { 32 } else { 1 })?;
        self.write_file(path.join("address"), hardware_address(infiniband, device.queue_pair, guid))?;
        self.write_file(path.join("mtu"), if infiniband { IPOIB_MTU } else { ETHERNET_MTU })?;
        // Ports start at 1, but `dev_port` and `dev_id` start at 0.
        self.write_file(path.join("dev_port"), number - 1)?;
        self.write_file(path.join("dev_id"), format!("{:#x}", number - 1))?;
        self.write_file(path.join("operstate"), if up { "up" } else { "down" })?;
        self.write_file(path.join("carrier"), u8::from(up))?;
        if infiniband {
            self.write_file(path.join("mode"), "datagram")?;
            self.write_file(path.join("pkey"), "0xffff")?;
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
            self.write_number(path.join("statistics").join(file), value)?;
        }
        self.symlink(path.join("device"), &view.sysfs_path())?;
        self.symlink(Path::new("class/net").join(name), &path)
    }

    /// Removes an interface from the sysfs tree, starting with its class link.
    pub(crate) fn remove_netdev(&self, view: &FunctionView<'_>, name: &str) -> Result<(), Error> {
        self.unlink(Path::new("class/net").join(name))?;
        self.remove_directory(view.sysfs_path().join("net").join(name))?;
        let _ = std::fs::remove_dir(self.base.join(view.sysfs_path()).join("net"));
        Ok(())
    }
}

/// Returns the hardware address of an interface. An IPoIB address consists of a queue pair number and the
/// port GID (RFC 4391, 9.1.1). An Ethernet address is derived from the GUID.
fn hardware_address(infiniband: bool, queue_pair: u32, guid: Guid) -> String {
    if infiniband {
        let [_, high, middle, low] = queue_pair.to_be_bytes();
        return format!("00:{high:02x}:{middle:02x}:{low:02x}:fe:80:00:00:00:00:00:00:{guid}");
    }
    let [first, second, _, _, _, rest @ ..] = guid.bytes();
    [first, second, 0].iter().chain(&rest).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}
