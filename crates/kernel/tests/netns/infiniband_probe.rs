//! Tests of address probes with 20-byte hardware addresses, on IPoIB interfaces. Run them in the VM of the `vm`
//! test tier, which has adapters and a subnet manager, with `--ignored --test-threads 1`.

use super::fixture::new_netns;
use ferroband_kernel::probe::{ProbeKind, ProbeOutcome, ProbeRequest, ProbeTimeouts, announce, probe};
use ferroband_kernel::sysfs::pci;
use ferroband_kernel::{Host, IpoibChild, IpoibMode, LinuxHost, Netns, RouteSocket};
use ferroband_model::PKey;
use std::process::Command;
use std::time::{Duration, Instant};

/// A namespace with an IPoIB interface `net1`. When the fixture is dropped, the interface is deleted, or moved
/// back if it existed before the test.
struct IpoibPodFixture {
    netns: Netns,
    /// Original name of the interface; `None` if it was created for the test.
    original_name: Option<String>,
}

impl IpoibPodFixture {
    /// Creates a namespace with an IPoIB child of an adapter, as the plugin `ipoib` creates it.
    fn child(parent: u32, pkey: PKey, addresses: &[&str]) -> Self {
        let temporary = format!("wire{}", std::process::id());
        let child = IpoibChild { parent, pkey, mode: IpoibMode::Datagram };
        LinuxHost::default().create_ipoib_child(&temporary, &child).unwrap();
        Self::with(&temporary, None, addresses)
    }

    /// Creates a namespace and moves the existing interface of a virtual function into it.
    fn function(interface: &str, addresses: &[&str]) -> Self {
        Self::with(interface, Some(interface.to_owned()), addresses)
    }

    fn with(interface: &str, original_name: Option<String>, addresses: &[&str]) -> Self {
        let pod = Self { netns: new_netns(), original_name };
        let mut host = RouteSocket::open().unwrap();
        let link = host.link(interface).unwrap().unwrap();
        host.move_link(link.index, &pod.netns).unwrap();
        let mut inside = RouteSocket::open_in(&pod.netns).unwrap();
        let link = inside.link(interface).unwrap().unwrap();
        inside.rename_link(link.index, "net1").unwrap();
        // Disable duplicate address detection of the kernel. Pods on one adapter share its GUID and hence the
        // link-local address, which would be detected as a duplicate.
        let written = pod.netns.run(|| std::fs::write("/proc/sys/net/ipv6/conf/net1/accept_dad", "0"));
        written.unwrap().unwrap();
        inside.set_up(link.index).unwrap();
        for address in addresses {
            inside.add_address(link.index, address.parse().unwrap()).unwrap();
        }
        pod
    }

    /// Output of `ip …` in the namespace.
    fn ip(&self, arguments: &str) -> String {
        let output =
            self.netns.run(|| Command::new("ip").args(arguments.split_whitespace()).output().unwrap());
        String::from_utf8(output.unwrap().stdout).unwrap()
    }

    /// The hardware address of `net1` as `ip` shows it.
    fn hardware(&self) -> String {
        let shown = self.ip("-br link show dev net1");
        shown.split_whitespace().nth(2).unwrap_or_default().to_owned()
    }
}

impl Drop for IpoibPodFixture {
    fn drop(&mut self) {
        match &self.original_name {
            None => drop(self.ip("link del dev net1")),
            Some(name) => {
                self.ip("link set dev net1 down");
                self.ip(&format!("link set dev net1 name {name}"));
                // Move the interface to the namespace of this process, which is the initial one.
                self.ip(&format!("link set dev {name} netns {}", std::process::id()));
            }
        }
    }
}

/// For each adapter, three interface names: that of the physical function and those of its first two virtual
/// functions.
fn adapters() -> Vec<[String; 3]> {
    let linux = LinuxHost::default();
    let functions = pci::functions(linux.root()).unwrap();
    let interface = |address| pci::function(linux.root(), address).unwrap().unwrap().netdevs.remove(0);
    let adapters: Vec<_> = functions
        .into_iter()
        .filter(|function| function.virtual_functions.len() >= 2)
        .map(|pf| [pf.address, pf.virtual_functions[0], pf.virtual_functions[1]].map(interface))
        .collect();
    assert_eq!(adapters.len(), 2, "this machine does not have two adapters");
    adapters
}

/// Sets the interfaces of the physical functions up and returns their indexes.
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

fn request(address: &str, kind: ProbeKind) -> ProbeRequest {
    ProbeRequest { interface: "net1".into(), address: address.parse().unwrap(), kind }
}

/// The timeouts are long because the VM is emulated on a busy host, and because a replying node first queries the
/// subnet manager for the path.
fn timeouts() -> ProbeTimeouts {
    ProbeTimeouts { carrier: Duration::from_secs(60), attempts: 5, reply: Duration::from_millis(800) }
}

/// Asserts that a probe passes in each pod, which requires a carrier.
fn assert_connected(pods: &[&IpoibPodFixture]) {
    for pod in pods {
        let outcomes = probe(&pod.netns, &[request("10.0.0.200", ProbeKind::Duplicate)], timeouts()).unwrap();
        assert_eq!(outcomes, [ProbeOutcome::Passed]);
    }
}

fn conflicts_with(outcome: &ProbeOutcome, hardware: &str) -> bool {
    matches!(outcome, ProbeOutcome::Conflict(by) if text(by) == hardware)
}

// Case: ipam P01, ipam P02
#[test]
#[ignore = "needs adapters"]
fn children_detect_duplicates_on_the_same_and_another_adapter() {
    let parents = parents();
    let pod = IpoibPodFixture::child(parents[0], PKey::DEFAULT, &[]);
    let sibling = IpoibPodFixture::child(parents[0], PKey::DEFAULT, &["10.0.0.1/24"]);
    let far = IpoibPodFixture::child(parents[1], PKey::DEFAULT, &["10.0.0.3/24"]);
    assert_connected(&[&sibling, &far]);
    let requests = [
        request("10.0.0.1", ProbeKind::Duplicate),
        request("10.0.0.3", ProbeKind::Duplicate),
        request("10.0.0.2", ProbeKind::Duplicate),
        request("10.0.0.2", ProbeKind::Gateway("10.0.0.3".parse().unwrap())),
        request("10.0.0.2", ProbeKind::Gateway("10.0.0.9".parse().unwrap())),
    ];
    let outcomes = probe(&pod.netns, &requests, timeouts()).unwrap();
    assert!(conflicts_with(&outcomes[0], &sibling.hardware()), "{outcomes:?}");
    assert!(conflicts_with(&outcomes[1], &far.hardware()), "{outcomes:?}");
    assert_eq!(outcomes[2..], [ProbeOutcome::Passed, ProbeOutcome::Passed, ProbeOutcome::GatewaySilent]);
}

// Case: ipam P01, ipam P02
#[test]
#[ignore = "needs adapters"]
fn virtual_functions_detect_duplicates_of_both_families() {
    let adapters = adapters();
    let pod = IpoibPodFixture::function(&adapters[0][1], &[]);
    let near = IpoibPodFixture::function(&adapters[0][2], &["10.0.0.1/24", "fd00::1/64"]);
    let far = IpoibPodFixture::function(&adapters[1][1], &["10.0.0.3/24", "fd00::3/64"]);
    assert_connected(&[&near, &far]);
    let all = ["10.0.0.1", "fd00::1", "10.0.0.3", "fd00::3", "10.0.0.2", "fd00::2"];
    let requests = all.map(|address| request(address, ProbeKind::Duplicate));
    let outcomes = probe(&pod.netns, &requests, timeouts()).unwrap();
    for (outcome, other) in outcomes.iter().zip([&near, &near, &far, &far]) {
        assert!(conflicts_with(outcome, &other.hardware()), "{outcomes:?}");
    }
    assert_eq!(outcomes[4..], [ProbeOutcome::Passed, ProbeOutcome::Passed]);
}

// Case: ipam P02
#[test]
#[ignore = "needs adapters"]
fn announcement_updates_neighbours_with_20_byte_addresses() {
    let parents = parents();
    let pod = IpoibPodFixture::child(parents[0], PKey::DEFAULT, &[]);
    let far = IpoibPodFixture::child(parents[1], PKey::DEFAULT, &["10.0.0.3/24"]);
    assert_connected(&[&pod, &far]);
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
fn probe_outside_the_partition_is_inconclusive_after_the_timeout() {
    let parents = parents();
    let pod = IpoibPodFixture::child(parents[0], PKey::new(0x8005).unwrap(), &[]);
    let timeouts = ProbeTimeouts { carrier: Duration::from_secs(2), ..timeouts() };
    let begin = Instant::now();
    let outcomes = probe(&pod.netns, &[request("10.0.0.1", ProbeKind::Duplicate)], timeouts).unwrap();
    assert_eq!(outcomes, [ProbeOutcome::Inconclusive]);
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}
