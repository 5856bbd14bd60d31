//! A host with simulated hardware in its own network namespace.

use ferroband_kernel::{Hardware, Netns, Root};
use ferroband_sim::{Profile, Simulation, SimulationChange, SimulationOptions};
use nix::sched::{CloneFlags, unshare};
use std::{sync::Arc, thread};
use tempfile::TempDir;

/// A simulated host. The thread that creates it moves into the host's network namespace.
pub struct SimulatedHostFixture {
    pub root: Root,
    pub hardware: Arc<dyn Hardware>,
    _folder: TempDir,
}

impl SimulatedHostFixture {
    /// Starts the simulation in a new network namespace. Threads that the calling thread starts from now on,
    /// including those of an async runtime, are in that namespace, too.
    pub fn up(profile: Profile) -> Self {
        unshare(CloneFlags::CLONE_NEWNET).expect("these tests need root");
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        Simulation::up(&root, profile, SimulationOptions { seed: "node-1".to_owned(), uplink: None })
            .unwrap();
        let hardware = ferroband_sim::hardware(&root).unwrap().into();
        Self { root, hardware, _folder: folder }
    }

    pub fn change(&self, change: &SimulationChange) {
        Simulation::change(&self.root, change).unwrap();
    }
}

/// Creates a network namespace that stands in for that of a pod. The calling thread stays in its own.
pub fn create_pod_netns() -> Netns {
    let netns = thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        Netns::current().unwrap()
    });
    netns.join().unwrap()
}
