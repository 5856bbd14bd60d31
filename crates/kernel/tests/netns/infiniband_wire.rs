//! Asking the wire where addresses have 20 bytes: IPoIB children on the adapters of the `vm` tier's machine, under a
//! subnet manager. Run there with `--ignored --test-threads 1`.

use super::bench::another;
use ferroband_kernel::probe::{About, Patience, Question, Verdict, announce, probe};
use ferroband_kernel::sysfs::pci;
use ferroband_kernel::{Host, IpoibChild, IpoibMode, Linux, Netns, Route};
use ferroband_model::PKey;
use std::process::Command;
use std::time::{Duration, Instant};

/// A namespace with a child `net1` of an adapter's interface. The child goes first: a namespace that dies hands it back.
struct Pod(Netns);

impl Pod {
    fn new(parent: u32, pkey: PKey, addresses: &[&str]) -> Self {
        let pod = Self(another());
        let passing = format!("wire{}", std::process::id());
        let child = IpoibChild { parent, pkey, mode: IpoibMode::Datagram };
        Linux::default().create_ipoib_child(&passing, &child).unwrap();
        let mut here = Route::here().unwrap();
        let made = here.link(&passing).unwrap().unwrap();
        here.move_to(made.index, &pod.0).unwrap();
        let mut inside = Route::inside(&pod.0).unwrap();
        let made = inside.link(&passing).unwrap().unwrap();
        inside.rename(made.index, "net1").unwrap();
        // Pods on one adapter have one GUID, hence one link-local address: the kernel's own detection would tell so.
        let undetected = pod.0.run(|| std::fs::write("/proc/sys/net/ipv6/conf/net1/accept_dad", "0"));
        undetected.unwrap().unwrap();
        inside.up(made.index).unwrap();
        for address in addresses {
            inside.add_address(made.index, address.parse().unwrap()).unwrap();
        }
        pod
    }

    /// What `ip …` says in there.
    fn ip(&self, arguments: &str) -> String {
        let output = self.0.run(|| Command::new("ip").args(arguments.split_whitespace()).output().unwrap());
        String::from_utf8(output.unwrap().stdout).unwrap()
    }

    /// The hardware address as `ip` shows it.
    fn hardware(&self) -> String {
        let shown = self.ip("-br link show dev net1");
        shown.split_whitespace().nth(2).unwrap_or_default().to_owned()
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        self.ip("link del dev net1");
    }
}

/// The interfaces of the adapters, up.
fn parents() -> Vec<u32> {
    let functions = pci::functions(Linux::default().root()).unwrap();
    let adapters = functions.into_iter().filter(|function| !function.virtual_functions.is_empty());
    let mut route = Route::here().unwrap();
    let parents: Vec<_> =
        adapters.map(|adapter| route.link(&adapter.netdevs[0]).unwrap().unwrap().index).collect();
    assert_eq!(parents.len(), 2, "this machine has not two adapters");
    for parent in &parents {
        route.up(*parent).unwrap();
    }
    parents
}

fn text(hardware: &[u8]) -> String {
    hardware.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

fn question(address: &str, about: About) -> Question {
    Question { interface: "net1".into(), address: address.parse().unwrap(), about }
}

/// An emulated machine on a busy host; and an answer's sender asks the subnet manager for the way first.
fn patience() -> Patience {
    Patience { carrier: Duration::from_secs(60), tries: 5, answer: Duration::from_millis(800) }
}

#[test]
#[ignore = "needs adapters"]
fn p01_p02_duplicates_are_found_on_the_same_adapter_and_on_another() {
    let parents = parents();
    let pod = Pod::new(parents[0], PKey::DEFAULT, &[]);
    let sibling = Pod::new(parents[0], PKey::DEFAULT, &["10.0.0.1/24", "fd00::1/64"]);
    let far = Pod::new(parents[1], PKey::DEFAULT, &["10.0.0.3/24", "fd00::3/64"]);
    let hardware = [sibling.hardware(), far.hardware()];
    assert!(hardware.iter().all(|address| address.len() == 59), "20 bytes: {hardware:?}");
    for other in [&sibling, &far] {
        let verdicts = probe(&other.0, &[question("10.0.0.200", About::Duplicate)], patience()).unwrap();
        assert_eq!(verdicts, [Verdict::Good], "they have a carrier");
    }
    let questions = [
        question("10.0.0.1", About::Duplicate),
        question("10.0.0.3", About::Duplicate),
        question("fd00::1", About::Duplicate),
        question("fd00::3", About::Duplicate),
        question("10.0.0.2", About::Duplicate),
        question("fd00::2", About::Duplicate),
        question("10.0.0.2", About::Gateway("10.0.0.3".parse().unwrap())),
        question("10.0.0.2", About::Gateway("10.0.0.9".parse().unwrap())),
    ];
    let verdicts = probe(&pod.0, &questions, patience()).unwrap();
    for (verdict, wanted) in verdicts.iter().zip([0, 1, 0, 1]) {
        assert!(matches!(verdict, Verdict::Conflict(by) if text(by) == hardware[wanted]), "{verdicts:?}");
    }
    assert_eq!(verdicts[4..], [Verdict::Good, Verdict::Good, Verdict::Good, Verdict::Silent]);
}

#[test]
#[ignore = "needs adapters"]
fn p02_an_announcement_reaches_neighbours_of_20_bytes() {
    let parents = parents();
    let pod = Pod::new(parents[0], PKey::DEFAULT, &[]);
    let far = Pod::new(parents[1], PKey::DEFAULT, &["10.0.0.3/24"]);
    for one in [&pod, &far] {
        probe(&one.0, &[question("10.0.0.200", About::Duplicate)], patience()).unwrap();
    }
    let wrong = "80:00:00:99:fe:80:00:00:00:00:00:00:02:00:00:00:00:99:00:01";
    far.ip(&format!("neighbour replace 10.0.0.2 lladdr {wrong} dev net1 nud stale"));
    assert!(far.ip("neighbour show dev net1").contains(wrong));
    let until = Instant::now() + Duration::from_secs(30);
    while !far.ip("neighbour show dev net1").contains(&pod.hardware()) {
        assert!(Instant::now() < until, "{}", far.ip("neighbour show dev net1"));
        announce(&pod.0, "net1", "10.0.0.2".parse().unwrap()).unwrap();
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
#[ignore = "needs adapters"]
fn outside_its_partition_a_child_hears_nothing_and_the_wait_is_bounded() {
    let parents = parents();
    let pod = Pod::new(parents[0], PKey::new(0x8005).unwrap(), &[]);
    let patience = Patience { carrier: Duration::from_secs(2), ..patience() };
    let begin = Instant::now();
    let verdicts = probe(&pod.0, &[question("10.0.0.1", About::Duplicate)], patience).unwrap();
    assert_eq!(verdicts, [Verdict::Unheard]);
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}
