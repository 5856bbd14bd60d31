//! Settings of the node daemon.

use crate::{
    advertise::{KubeletDir, RegistrationMode},
    pools::PoolSources,
    resolve::NetworkAccessPolicy,
};
use ferroband_kernel::Root;
use std::{net::SocketAddr, path::PathBuf};

#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// Name of this node in the API server.
    pub node: String,
    /// Namespace that Ferroband is installed in.
    pub namespace: String,
    /// Root of the host's file system. Directories of the host, such as `etc/cni/net.d`, are looked up below
    /// it.
    pub root: Root,
    /// The binary to install as the CNI plugin; `None` leaves the CNI bin directory unchanged.
    pub cni_program: Option<PathBuf>,
    /// Additional names under which the CNI plugin is installed, such as `ipoib` or `whereabouts`.
    pub aliases: Vec<String>,
    pub simulation: Option<SimulationSettings>,
    /// Sources of the device plugin's resource configuration.
    pub devices: PoolSources,
    /// Pass devices to containers by CDI device name instead of by device file.
    pub cdi: bool,
    pub policy: NetworkAccessPolicy,
    /// The opensm binary for nodes that run a subnet manager: a path, or a name to look up in `PATH`.
    pub opensm: PathBuf,
    /// Listen address of the metrics endpoint; `None` disables it.
    pub metrics: Option<SocketAddr>,
}

#[derive(Clone, Debug)]
pub struct SimulationSettings {
    /// Name of a built-in simulation profile, such as `default`.
    pub profile: String,
    /// Network interface that connects the simulated fabric to other nodes; without it, partitions are local
    /// to the node.
    pub uplink: Option<String>,
}

impl NodeSettings {
    /// The container runtime's CNI configuration directory.
    pub fn net_d(&self) -> PathBuf {
        self.root.path("etc/cni/net.d")
    }

    /// The directory in which the container runtime looks for CNI plugins.
    pub fn cni_bin_dir(&self) -> PathBuf {
        self.root.path("opt/cni/bin")
    }

    pub fn kubelet(&self) -> KubeletDir {
        KubeletDir { path: self.root.path("var/lib/kubelet"), registration: RegistrationMode::Auto }
    }
}
