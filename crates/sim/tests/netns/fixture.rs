//! Fixtures of the tests: simulated nodes and pods, and functions that run `ip` and `ping`.

use ferroband_kernel::rtnetlink::RouteSocket;
use ferroband_kernel::{Hardware, Host, IpoibChild, Netns, Root};
use ferroband_model::{PKey, PciAddress};
use ferroband_sim::{Error, Profile, Simulation, SimulationOptions};
use nix::sched::{CloneFlags, unshare};
use serde_json::Value;
use std::process::{Command, Output};
use tempfile::TempDir;

/// A node with its own network namespace and root directory.
pub struct SimNodeFixture {
    pub netns: Netns,
    pub root: Root,
    _directory: TempDir,
}

pub fn new_netns() -> Netns {
    std::thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNET).expect("these tests need root");
        Netns::current().unwrap()
    })
    .join()
    .unwrap()
}

impl SimNodeFixture {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { netns: new_netns(), root: Root::at(directory.path()), _directory: directory }
    }

    /// A node with a running simulation of the default profile.
    pub fn with_simulation(seed: &str) -> Self {
        let node = Self::new();
        node.up(seed, None).unwrap();
        node
    }

    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.netns.run(work).unwrap()
    }

    pub fn up(&self, seed: &str, uplink: Option<&str>) -> Result<Simulation, Error> {
        let options = SimulationOptions { seed: seed.to_owned(), uplink: uplink.map(str::to_owned) };
        self.run(|| Simulation::up(&self.root, Profile::default(), options))
    }

    /// Starts a simulation of `profile` without an uplink.
    pub fn up_with(&self, profile: Profile, seed: &str) {
        let options = SimulationOptions { seed: seed.to_owned(), uplink: None };
        self.run(|| Simulation::up(&self.root, profile, options)).unwrap();
    }

    pub fn down(&self) -> Result<(), Error> {
        self.run(|| Simulation::down(&self.root))
    }

    pub fn host(&self) -> Box<dyn Host> {
        ferroband_sim::host(&self.root).unwrap()
    }

    pub fn hardware(&self) -> Box<dyn Hardware> {
        ferroband_sim::hardware(&self.root).unwrap()
    }

    /// Moves the interface of a function to a new pod namespace as `net1` with an address. Must be called in the
    /// node's namespace.
    pub fn move_function_to_pod(
        &self,
        hardware: &dyn Hardware,
        function: PciAddress,
        address: &str,
    ) -> Netns {
        let pod = new_netns();
        let link = hardware.interfaces(function, None).unwrap().remove(0);
        RouteSocket::open().unwrap().move_link(link.index, &pod).unwrap();
        let mut inside = RouteSocket::open_in(&pod).unwrap();
        let link = inside.link(&link.name).unwrap().unwrap();
        inside.rename_link(link.index, "net1").unwrap();
        inside.add_address(link.index, address.parse().unwrap()).unwrap();
        inside.set_up(link.index).unwrap();
        pod
    }

    /// Creates a child of `ib0` and moves it to a new pod namespace as `net1` with an address.
    pub fn create_ipoib_pod(&self, pkey: u16, address: &str) -> Netns {
        let pod = new_netns();
        self.run(|| {
            let host = self.host();
            let parent = host.ipoib_parent("ib0").unwrap();
            let pkey = PKey::new(pkey).unwrap();
            host.create_ipoib_child("child", &IpoibChild { parent: parent.index, pkey, mode: parent.mode })
                .unwrap();
            let mut route = RouteSocket::open().unwrap();
            let child = route.link("child").unwrap().unwrap();
            route.move_link(child.index, &pod).unwrap();
        });
        let mut inside = RouteSocket::open_in(&pod).unwrap();
        let child = inside.link("child").unwrap().unwrap();
        inside.rename_link(child.index, "net1").unwrap();
        inside.add_address(child.index, address.parse().unwrap()).unwrap();
        inside.set_up(child.index).unwrap();
        pod
    }

    /// Names of all interfaces except loopback, as `ip` shows them.
    pub fn link_names(&self) -> Vec<String> {
        let links = self.run(|| ip_json("link show"));
        let names = links.as_array().unwrap().iter().map(|link| link["ifname"].as_str().unwrap().to_owned());
        let mut names: Vec<String> = names.filter(|name| name != "lo").collect();
        names.sort();
        names
    }
}

/// Output of `ip -j …` in the namespace of the calling thread.
pub fn ip_json(arguments: &str) -> Value {
    let output = Command::new("ip").args(["-j", "-d"]).args(arguments.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    if output.stdout.is_empty() { Value::Null } else { serde_json::from_slice(&output.stdout).unwrap() }
}

/// Sends three unfragmented packets of `size` bytes from `pod` to `address`.
pub fn ping(pod: &Netns, address: &str, size: u32) -> Output {
    pod.run(|| {
        Command::new("ping")
            .args(["-c", "3", "-i", "0.2", "-W", "2", "-M", "do", "-s", &size.to_string(), address])
            .output()
            .unwrap()
    })
    .unwrap()
}

/// Whether at least one of the three packets of [`ping`] was answered.
pub fn reaches(pod: &Netns, address: &str, size: u32) -> bool {
    ping(pod, address, size).status.success()
}
