//! Directories from which the hardware inventory is read, and cheap summaries of their content.

use super::{Inventory, sysfs::read_text, sysfs::sorted_names};
use ferroband_kernel::{Error, Host, Root};
use std::path::{Path, PathBuf};

/// Root directory of a host and its directory of RDMA device files.
#[derive(Clone, Debug)]
pub struct DiscoveryRoots {
    pub root: Root,
    pub simulated: bool,
    /// Directory of RDMA device files such as `uverbs0`: usually `/dev/infiniband`.
    pub device_dir: PathBuf,
}

impl DiscoveryRoots {
    pub fn of_host(host: &dyn Host) -> Self {
        let root = host.root().clone();
        Self { device_dir: root.dev("infiniband"), simulated: host.is_simulated(), root }
    }

    pub fn read_inventory(&self) -> Result<Inventory, Error> {
        Inventory::read_from(self)
    }

    /// Returns a cheap summary that changes when a device is added or removed or a port changes its state. On a
    /// node with a hundred virtual functions, a complete inventory takes thousands of file reads; the summary takes
    /// far fewer.
    pub fn fingerprint(&self) -> Vec<String> {
        let mut summary = Vec::new();
        for dir in ["bus/pci/devices", "class/infiniband_verbs", "class/net"] {
            summary.extend(sorted_names(&self.root.sys(dir)));
        }
        summary.extend(self.port_states(|_| true));
        summary.extend(sorted_names(&self.device_dir));
        summary.extend(self.netns_mode());
        summary
    }

    /// Returns an even cheaper summary, only of state whose changes cause no kernel event: the states of
    /// physical ports and the RDMA namespace mode. Ports of virtual functions are skipped, because they
    /// depend on the physical port.
    pub fn port_fingerprint(&self) -> Vec<String> {
        let mut summary = self.port_states(|device| !device.join("device/physfn").exists());
        summary.extend(self.netns_mode());
        summary
    }

    fn netns_mode(&self) -> Option<String> {
        read_text(&self.root.sys("module/ib_core/parameters/netns_mode"))
    }

    fn port_states(&self, which: impl Fn(&Path) -> bool) -> Vec<String> {
        let mut summary = Vec::new();
        let devices = self.root.sys("class/infiniband");
        for name in sorted_names(&devices) {
            let device = devices.join(&name);
            if which(&device) {
                let ports = device.join("ports");
                summary.extend(
                    sorted_names(&ports).iter().filter_map(|port| read_text(&ports.join(port).join("state"))),
                );
            }
            summary.push(name);
        }
        summary
    }
}
