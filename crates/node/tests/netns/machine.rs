//! A machine with simulated hardware, in a network namespace of the test's own.

use ferroband_kernel::{Hardware, Netns, Root};
use ferroband_sim::{Profile, Simulation, SimulationChange, SimulationOptions};
use nix::sched::{CloneFlags, unshare};
use std::{sync::Arc, thread};
use tempfile::TempDir;

/// The machine; the calling thread is in its namespace.
pub struct SimulatedHostFixture {
    pub root: Root,
    pub hardware: Arc<dyn Hardware>,
    _folder: TempDir,
}

impl SimulatedHostFixture {
    /// Brings it up. What the thread starts from now on, a runtime's threads too, is in its namespace.
    pub fn up(profile: Profile) -> Self {
        unshare(CloneFlags::CLONE_NEWNET).expect("these tests need root");
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        Simulation::up(&root, profile, SimulationOptions { seed: "node-1".to_owned(), uplink: None })
            .unwrap();
        let hardware = ferroband_sim::hardware(&root).unwrap().into();
        Self { root, hardware, _folder: folder }
    }

    /// Does something to the hardware.
    pub fn change(&self, change: &SimulationChange) {
        Simulation::change(&self.root, change).unwrap();
    }
}

/// A network namespace as a pod has one.
pub fn pod() -> Netns {
    let made = thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        Netns::current().unwrap()
    });
    made.join().unwrap()
}
