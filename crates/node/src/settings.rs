//! How a daemon is told to run.

use ferroband_kernel::Root;
use std::path::PathBuf;

/// Everything that can be chosen about a node daemon.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of this node in the API server.
    pub node: String,
    /// Where the machine's file trees are.
    pub root: Root,
    /// The program to install as the CNI plugin; `None` leaves the folder of programs alone.
    pub cni_program: Option<PathBuf>,
    /// Further names to install it under: `ipoib`, `whereabouts`.
    pub aliases: Vec<String>,
    /// Hardware to simulate.
    pub simulate: Option<Simulate>,
}

/// Simulated hardware.
#[derive(Clone, Debug)]
pub struct Simulate {
    /// The name of the profile.
    pub profile: String,
    /// An interface that reaches the other nodes; without one, partitions end at the node.
    pub uplink: Option<String>,
}

impl Settings {
    /// The runtime's folder of CNI configurations.
    pub fn net_d(&self) -> PathBuf {
        self.root.path("etc/cni/net.d")
    }

    /// The runtime's folder of CNI programs.
    pub fn programs(&self) -> PathBuf {
        self.root.path("opt/cni/bin")
    }

    /// The kubelet's folder of device plugins.
    pub fn device_plugins(&self) -> PathBuf {
        self.root.path("var/lib/kubelet/device-plugins")
    }
}
