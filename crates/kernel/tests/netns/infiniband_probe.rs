//! Asking the wire where addresses have 20 bytes: IPoIB children on the adapters of the `vm` tier's machine, under a
//! subnet manager. Run there with `--ignored --test-threads 1`.

use super::fixture::new_netns;
use ferroband_kernel::probe::{ProbeKind, ProbeOutcome, ProbeRequest, ProbeTimeouts, announce, probe};
use ferroband_kernel::sysfs::pci;
use ferroband_kernel::{Host, IpoibChild, IpoibMode, LinuxHost, Netns, RouteSocket};
use ferroband_model::PKey;
use std::process::Command;
use std::time::{Duration, Instant};

/// A namespace with an IPoIB interface `net1`, which goes back before the namespace dies.
struct IpoibPodFixture {
    netns: Netns,
    /// What the interface was called, unless it was made for this.
    was: Option<String>,
}

impl IpoibPodFixture {
    /// With a child of an adapter's interface, as the plugin `ipoib` makes it.
    fn child(parent: u32, pkey: PKey, addresses: &[&str]) -> Self {
        let passing = format!("wire{}", std::process::id());
        let child = IpoibChild { parent, pkey, mode: IpoibMode::Datagram };
        LinuxHost::default().create_ipoib_child(&passing, &child).unwrap();
        Self::with(&passing, None, addresses)
    }

    /// With the interface of a virtual function.
    fn function(interface: &str, addresses: &[&str]) -> Self {
        Self::with(interface, Some(interface.to_owned()), addresses)
    }

    fn with(interface: &str, was: Option<String>, addresses: &[&str]) -> Self {
        let pod = Self { netns: new_netns(), was };
        let mut here = RouteSocket::open().unwrap();
        let link = here.link(interface).unwrap().unwrap();
        here.move_link(link.index, &pod.netns).unwrap();
        let mut inside = RouteSocket::open_in(&pod.netns).unwrap();
        let link = inside.link(interface).unwrap().unwrap();
        inside.rename_link(link.index, "net1").unwrap();
        // Pods on one adapter have one GUID, hence one link-local address: the kernel's own detection would tell so.
        let undetected = pod.netns.run(|| std::fs::write("/proc/sys/net/ipv6/conf/net1/accept_dad", "0"));
        undetected.unwrap().unwrap();
        inside.set_up(link.index).unwrap();
        for address in addresses {
            inside.add_address(link.index, address.parse().unwrap()).unwrap();
        }
        pod
    }

    /// What `ip …` says in there.
    fn ip(&self, arguments: &str) -> String {
        let output =
            self.netns.run(|| Command::new("ip").args(arguments.split_whitespace()).output().unwrap());
        String::from_utf8(output.unwrap().stdout).unwrap()
    }

    /// The hardware address as `ip` shows it.
    fn hardware(&self) -> String {
        let shown = self.ip("-br link show dev net1");
        shown.split_whitespace().nth(2).unwrap_or_default().to_owned()
    }
}

impl Drop for IpoibPodFixture {
    fn drop(&mut self) {
        match &self.was {
            None => drop(self.ip("link del dev net1")),
            Some(name) => {
                self.ip("link set dev net1 down");
                // The process itself is in the first namespace.
                self.ip(&format!("link set dev net1 name {name}"));
                self.ip(&format!("link set dev {name} netns {}", std::process::id()));
            }
        }
    }
}

/// The adapters: the name of each one's interface, and of those of its first two functions.
fn adapters() -> Vec<[String; 3]> {
    let linux = LinuxHost::default();
    let functions = pci::functions(linux.root()).unwrap();
    let interface = |address| pci::function(linux.root(), address).unwrap().unwrap().netdevs.remove(0);
    let adapters: Vec<_> = functions
        .into_iter()
        .filter(|function| function.virtual_functions.len() >= 2)
        .map(|pf| [pf.address, pf.virtual_functions[0], pf.virtual_functions[1]].map(interface))
        .collect();
    assert_eq!(adapters.len(), 2, "this machine has not two adapters");
    adapters
}

/// The indexes of the adapters' interfaces, up.
fn parents() -> Vec<u32> {
    let mut route = RouteSocket::open().unwrap();
    let indexes = adapters().into_iter().map(|[parent, ..]| {
        let link = route.link(&parent).unwrap().unwrap();
        route.set_up(link.index).unwrap();
        link.index
    });
    indexes.collect()
}

fn text(hardware: &[u8]) -> String {
    hardware.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

fn question(address: &str, about: ProbeKind) -> ProbeRequest {
    ProbeRequest { interface: "net1".into(), address: address.parse().unwrap(), kind: about }
}

/// An emulated machine on a busy host; and an answer's sender asks the subnet manager for the way first.
fn patience() -> ProbeTimeouts {
    ProbeTimeouts { carrier: Duration::from_secs(60), attempts: 5, reply: Duration::from_millis(800) }
}

/// Each of them has a carrier.
fn connected(pods: &[&IpoibPodFixture]) {
    for pod in pods {
        let verdicts =
            probe(&pod.netns, &[question("10.0.0.200", ProbeKind::Duplicate)], patience()).unwrap();
        assert_eq!(verdicts, [ProbeOutcome::Passed]);
    }
}

fn conflicts_with(verdict: &ProbeOutcome, hardware: &str) -> bool {
    matches!(verdict, ProbeOutcome::Conflict(by) if text(by) == hardware)
}

#[test]
#[ignore = "needs adapters"]
fn p01_p02_children_find_duplicates_on_the_same_adapter_and_on_another() {
    let parents = parents();
    let pod = IpoibPodFixture::child(parents[0], PKey::DEFAULT, &[]);
    let sibling = IpoibPodFixture::child(parents[0], PKey::DEFAULT, &["10.0.0.1/24"]);
    let far = IpoibPodFixture::child(parents[1], PKey::DEFAULT, &["10.0.0.3/24"]);
    connected(&[&sibling, &far]);
    let questions = [
        question("10.0.0.1", ProbeKind::Duplicate),
        question("10.0.0.3", ProbeKind::Duplicate),
        question("10.0.0.2", ProbeKind::Duplicate),
        question("10.0.0.2", ProbeKind::Gateway("10.0.0.3".parse().unwrap())),
        question("10.0.0.2", ProbeKind::Gateway("10.0.0.9".parse().unwrap())),
    ];
    let verdicts = probe(&pod.netns, &questions, patience()).unwrap();
    assert!(conflicts_with(&verdicts[0], &sibling.hardware()), "{verdicts:?}");
    assert!(conflicts_with(&verdicts[1], &far.hardware()), "{verdicts:?}");
    assert_eq!(verdicts[2..], [ProbeOutcome::Passed, ProbeOutcome::Passed, ProbeOutcome::GatewaySilent]);
}

#[test]
#[ignore = "needs adapters"]
fn p01_p02_functions_find_duplicates_of_both_families() {
    let adapters = adapters();
    let pod = IpoibPodFixture::function(&adapters[0][1], &[]);
    let near = IpoibPodFixture::function(&adapters[0][2], &["10.0.0.1/24", "fd00::1/64"]);
    let far = IpoibPodFixture::function(&adapters[1][1], &["10.0.0.3/24", "fd00::3/64"]);
    connected(&[&near, &far]);
    let all = ["10.0.0.1", "fd00::1", "10.0.0.3", "fd00::3", "10.0.0.2", "fd00::2"];
    let questions = all.map(|address| question(address, ProbeKind::Duplicate));
    let verdicts = probe(&pod.netns, &questions, patience()).unwrap();
    for (verdict, other) in verdicts.iter().zip([&near, &near, &far, &far]) {
        assert!(conflicts_with(verdict, &other.hardware()), "{verdicts:?}");
    }
    assert_eq!(verdicts[4..], [ProbeOutcome::Passed, ProbeOutcome::Passed]);
}

#[test]
#[ignore = "needs adapters"]
fn p02_an_announcement_reaches_neighbours_of_20_bytes() {
    let parents = parents();
    let pod = IpoibPodFixture::child(parents[0], PKey::DEFAULT, &[]);
    let far = IpoibPodFixture::child(parents[1], PKey::DEFAULT, &["10.0.0.3/24"]);
    connected(&[&pod, &far]);
    let wrong = "80:00:00:99:fe:80:00:00:00:00:00:00:02:00:00:00:00:99:00:01";
    far.ip(&format!("neighbour replace 10.0.0.2 lladdr {wrong} dev net1 nud stale"));
    assert!(far.ip("neighbour show dev net1").contains(wrong));
    let until = Instant::now() + Duration::from_secs(30);
    while !far.ip("neighbour show dev net1").contains(&pod.hardware()) {
        assert!(Instant::now() < until, "{}", far.ip("neighbour show dev net1"));
        announce(&pod.netns, "net1", "10.0.0.2".parse().unwrap()).unwrap();
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
#[ignore = "needs adapters"]
fn outside_its_partition_a_child_hears_nothing_and_the_wait_is_bounded() {
    let parents = parents();
    let pod = IpoibPodFixture::child(parents[0], PKey::new(0x8005).unwrap(), &[]);
    let patience = ProbeTimeouts { carrier: Duration::from_secs(2), ..patience() };
    let begin = Instant::now();
    let verdicts = probe(&pod.netns, &[question("10.0.0.1", ProbeKind::Duplicate)], patience).unwrap();
    assert_eq!(verdicts, [ProbeOutcome::Inconclusive]);
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}
