//! How a daemon is told to run.

use crate::{
    advertise::{KubeletDir, RegistrationMode},
    plan::NetworkAccessPolicy,
    pools::PoolSources,
};
use ferroband_kernel::Root;
use std::{net::SocketAddr, path::PathBuf};

/// Everything that can be chosen about a node daemon.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// The name of this node in the API server.
    pub node: String,
    /// The namespace that Ferroband is installed in.
    pub namespace: String,
    /// Where the machine's file trees are.
    pub root: Root,
    /// The program to install as the CNI plugin; `None` leaves the folder of programs alone.
    pub cni_program: Option<PathBuf>,
    /// Further names to install it under: `ipoib`, `whereabouts`.
    pub aliases: Vec<String>,
    /// Hardware to simulate.
    pub simulation: Option<SimulationSettings>,
    /// Where the resources that this node offers are configured.
    pub devices: PoolSources,
    /// Give functions by the names of a CDI specification.
    pub cdi: bool,
    /// What the administrator decided about networks.
    pub policy: NetworkAccessPolicy,
    /// The opensm of a node that is chosen to run one: a path, or a name to look for.
    pub opensm: PathBuf,
    /// Where metrics are served.
    pub metrics: Option<SocketAddr>,
}

/// Simulated hardware.
#[derive(Clone, Debug)]
pub struct SimulationSettings {
    /// The name of the profile.
    pub profile: String,
    /// An interface that reaches the other nodes; without one, partitions end at the node.
    pub uplink: Option<String>,
}

impl NodeSettings {
    /// The runtime's folder of CNI configurations.
    pub fn net_d(&self) -> PathBuf {
        self.root.path("etc/cni/net.d")
    }

    /// The runtime's folder of CNI programs.
    pub fn cni_bin_dir(&self) -> PathBuf {
        self.root.path("opt/cni/bin")
    }

    /// The kubelet of this node.
    pub fn kubelet(&self) -> KubeletDir {
        KubeletDir { path: self.root.path("var/lib/kubelet"), registration: RegistrationMode::Auto }
    }
}
