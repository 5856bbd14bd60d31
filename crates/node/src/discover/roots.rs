//! Where a machine is looked at.

use super::{Inventory, sysfs::read_text, sysfs::sorted_names};
use ferroband_kernel::{Error, Host, Root};
use std::path::{Path, PathBuf};

/// A machine's file trees, and the folder of its RDMA device files.
#[derive(Clone, Debug)]
pub struct DiscoveryRoots {
    /// The trees.
    pub root: Root,
    /// Whether the hardware in them is simulated.
    pub simulated: bool,
    /// The folder with `uverbs0`: `/dev/infiniband`.
    pub device_dir: PathBuf,
}

impl DiscoveryRoots {
    /// The machine as `host` has it.
    pub fn of_host(host: &dyn Host) -> Self {
        let root = host.root().clone();
        Self { device_dir: root.dev("infiniband"), simulated: host.is_simulated(), root }
    }

    /// Look at everything.
    pub fn read_inventory(&self) -> Result<Inventory, Error> {
        Inventory::read_from(self)
    }

    /// A cheap glance: whatever comes, goes, or changes the state of a port changes it. Reading everything costs
    /// thousands of reads on a node with a hundred virtual functions; this costs a few dozen.
    pub fn fingerprint(&self) -> Vec<String> {
        let mut seen = Vec::new();
        for folder in ["bus/pci/devices", "class/infiniband_verbs", "class/net"] {
            seen.extend(sorted_names(&self.root.sys(folder)));
        }
        seen.extend(self.port_states(|_| true));
        seen.extend(sorted_names(&self.device_dir));
        seen.extend(self.netns_mode());
        seen
    }

    /// Less than a glance, for what no event tells of: the states of the ports that have cables (a virtual function is
    /// judged by its physical one), and whether devices belong to one namespace each.
    pub fn port_fingerprint(&self) -> Vec<String> {
        let mut seen = self.port_states(|device| !device.join("device/physfn").exists());
        seen.extend(self.netns_mode());
        seen
    }

    fn netns_mode(&self) -> Option<String> {
        read_text(&self.root.sys("module/ib_core/parameters/netns_mode"))
    }

    fn port_states(&self, which: impl Fn(&Path) -> bool) -> Vec<String> {
        let mut seen = Vec::new();
        let devices = self.root.sys("class/infiniband");
        for name in sorted_names(&devices) {
            let device = devices.join(&name);
            if which(&device) {
                let ports = device.join("ports");
                seen.extend(
                    sorted_names(&ports).iter().filter_map(|port| read_text(&ports.join(port).join("state"))),
                );
            }
            seen.push(name);
        }
        seen
    }
}
