//! Where a machine is looked at.

use super::{Inventory, sysfs::names, sysfs::text};
use ferroband_kernel::{Error, Host, Root};
use std::path::{Path, PathBuf};

/// A machine's file trees, and the folder of its RDMA device files.
#[derive(Clone, Debug)]
pub struct Sight {
    /// The trees.
    pub root: Root,
    /// Whether the hardware in them is simulated.
    pub simulated: bool,
    /// The folder with `uverbs0`: `/dev/infiniband`.
    pub files: PathBuf,
}

impl Sight {
    /// The machine as `host` has it.
    pub fn of(host: &dyn Host) -> Self {
        let root = host.root().clone();
        Self { files: root.dev("infiniband"), simulated: host.simulated(), root }
    }

    /// Look at everything.
    pub fn look(&self) -> Result<Inventory, Error> {
        Inventory::look(self)
    }

    /// A cheap glance: whatever comes, goes, or changes the state of a port changes it. Reading everything costs
    /// thousands of reads on a node with a hundred virtual functions; this costs a few dozen.
    pub fn glance(&self) -> Vec<String> {
        let mut seen = Vec::new();
        for folder in ["bus/pci/devices", "class/infiniband_verbs", "class/net"] {
            seen.extend(names(&self.root.sys(folder)));
        }
        seen.extend(self.states(|_| true));
        seen.extend(names(&self.files));
        seen.extend(self.mode());
        seen
    }

    /// Less than a glance, for what no event tells of: the states of the ports that have cables (a virtual function is
    /// judged by its physical one), and whether devices belong to one namespace each.
    pub fn ports(&self) -> Vec<String> {
        let mut seen = self.states(|device| !device.join("device/physfn").exists());
        seen.extend(self.mode());
        seen
    }

    fn mode(&self) -> Option<String> {
        text(&self.root.sys("module/ib_core/parameters/netns_mode"))
    }

    fn states(&self, which: impl Fn(&Path) -> bool) -> Vec<String> {
        let mut seen = Vec::new();
        let devices = self.root.sys("class/infiniband");
        for name in names(&devices) {
            let device = devices.join(&name);
            if which(&device) {
                let ports = device.join("ports");
                seen.extend(names(&ports).iter().filter_map(|port| text(&ports.join(port).join("state"))));
            }
            seen.push(name);
        }
        seen
    }
}
