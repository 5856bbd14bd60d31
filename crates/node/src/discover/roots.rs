//! The file trees that discovery reads.

use super::{Inventory, sysfs::read_text, sysfs::sorted_names};
use ferroband_kernel::{Error, Host, Root};
use std::path::{Path, PathBuf};

/// The file trees of a machine and its RDMA device directory.
#[derive(Clone, Debug)]
pub struct DiscoveryRoots {
    pub root: Root,
    pub simulated: bool,
    /// Directory with `uverbs0`: `/dev/infiniband`.
    pub device_dir: PathBuf,
}

impl DiscoveryRoots {
    pub fn of_host(host: &dyn Host) -> Self {
        let root = host.root().clone();
        Self { device_dir: root.dev("infiniband"), simulated: host.is_simulated(), root }
    }

    /// Reads the complete inventory.
    pub fn read_inventory(&self) -> Result<Inventory, Error> {
        Inventory::read_from(self)
    }

    /// A cheap summary that changes when a device is added or removed or a port changes state. A full read takes
    /// thousands of file reads on a node with a hundred virtual functions; this takes a few dozen.
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

    /// An even cheaper summary of what the kernel reports no event for: the states of physical ports (a virtual
    /// function shares the state of its physical one) and the RDMA namespace mode.
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
