//! Asking the wire, on Ethernet: a pod's end here, the rest of the world in another namespace.

use super::fixture::{create_veth, enter_new_netns, ip_json};
use ferroband_kernel::probe::{ProbeKind, ProbeOutcome, ProbeRequest, ProbeTimeouts, announce, probe};
use ferroband_kernel::{Netns, RouteSocket};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// `net1` here; `peer`, up, in a namespace of its own that has `addresses`.
fn world(addresses: &[&str]) -> (Netns, Netns) {
    let mut route = enter_new_netns();
    let here = Netns::current().unwrap();
    let there = std::thread::spawn(|| {
        enter_new_netns();
        Netns::current().unwrap()
    })
    .join()
    .unwrap();
    create_veth(&mut route, "net1", "peer");
    let peer = route.link("peer").unwrap().unwrap();
    route.move_link(peer.index, &there).unwrap();
    let mut other = RouteSocket::open_in(&there).unwrap();
    let peer = other.link("peer").unwrap().unwrap();
    other.set_up(peer.index).unwrap();
    // The peer's own detection of duplicates begins with the carrier, and until it is done it answers nobody.
    let undetected = there.run(|| std::fs::write("/proc/sys/net/ipv6/conf/peer/accept_dad", "0"));
    undetected.unwrap().unwrap();
    for address in addresses {
        other.add_address(peer.index, address.parse().unwrap()).unwrap();
    }
    (here, there)
}

fn question(address: &str, about: ProbeKind) -> ProbeRequest {
    ProbeRequest { interface: "net1".into(), address: address.parse().unwrap(), kind: about }
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn patience() -> ProbeTimeouts {
    ProbeTimeouts { reply: Duration::from_millis(400), ..ProbeTimeouts::default() }
}

#[test]
fn p01_p04_conflicts_and_gateways_of_both_families_at_once() {
    let (here, there) = world(&["10.0.0.1/24", "fd00::1/64"]);
    let hardware = RouteSocket::open_in(&there).unwrap().link("peer").unwrap().unwrap().address;
    let questions = [
        question("10.0.0.1", ProbeKind::Duplicate),
        question("10.0.0.2", ProbeKind::Duplicate),
        question("10.0.0.2", ProbeKind::Gateway(address("10.0.0.1"))),
        question("10.0.0.2", ProbeKind::Gateway(address("10.0.0.9"))),
        question("fd00::1", ProbeKind::Duplicate),
        question("fd00::2", ProbeKind::Duplicate),
        ProbeRequest { interface: "net9".into(), address: address("10.0.0.1"), kind: ProbeKind::Duplicate },
    ];
    let begin = Instant::now();
    let verdicts = probe(&here, &questions, patience()).unwrap();
    assert!(matches!(&verdicts[0], ProbeOutcome::Conflict(by) if *by == hardware), "{verdicts:?}");
    assert_eq!(verdicts[1..4], [ProbeOutcome::Passed, ProbeOutcome::Passed, ProbeOutcome::GatewaySilent]);
    assert!(matches!(&verdicts[4], ProbeOutcome::Conflict(_)), "{verdicts:?}");
    assert_eq!(verdicts[5..], [ProbeOutcome::Passed, ProbeOutcome::Inconclusive]);
    // Three tries each, all at once: not the sum of them.
    assert!(begin.elapsed() < Duration::from_secs(6), "{:?}", begin.elapsed());
    assert!(
        ip_json("link show dev net1")[0]["flags"].to_string().contains("UP"),
        "it was set up to be heard"
    );
}

#[test]
fn without_a_carrier_nothing_is_said_and_the_wait_is_bounded() {
    let mut route = enter_new_netns();
    create_veth(&mut route, "net1", "peer");
    let here = Netns::current().unwrap();
    let patience = ProbeTimeouts { carrier: Duration::from_millis(300), ..ProbeTimeouts::default() };
    let begin = Instant::now();
    let verdicts = probe(&here, &[question("10.0.0.1", ProbeKind::Duplicate)], patience).unwrap();
    assert_eq!(verdicts, [ProbeOutcome::Inconclusive]);
    assert!(begin.elapsed() < Duration::from_secs(5));
}

#[test]
fn p02_an_announcement_corrects_what_neighbours_remember() {
    let (here, there) = world(&["10.0.0.1/24"]);
    let mut route = RouteSocket::open_in(&here).unwrap();
    let link = route.link("net1").unwrap().unwrap();
    route.set_up(link.index).unwrap();
    let stale = "ip neighbour replace 10.0.0.2 lladdr 02:00:00:00:00:99 dev peer nud stale";
    let run = |command: &str| {
        let words: Vec<_> = command.split(' ').map(str::to_owned).collect();
        let output = there.run(|| std::process::Command::new(&words[0]).args(&words[1..]).output().unwrap());
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    run(stale);
    let mac: Vec<_> = link.address.iter().map(|byte| format!("{byte:02x}")).collect();
    for _ in 0..100 {
        announce(&here, "net1", address("10.0.0.2")).unwrap();
        if run("ip neighbour show dev peer").contains(&mac.join(":")) {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{}", run("ip neighbour show dev peer"));
}

/// Linux answers through any interface that hears the question, so the interfaces of one pod on one fabric answer for
/// each other: that is nobody else.
#[test]
fn p02_other_interfaces_of_the_same_pod_are_no_conflict() {
    let (here, there) = world(&[]);
    let run = |netns: &Netns, script: &str| {
        let output = netns.run(|| std::process::Command::new("sh").args(["-ec", script]).output().unwrap());
        let output = output.unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let mut route = RouteSocket::open_in(&here).unwrap();
    create_veth(&mut route, "net2", "peer2");
    let peer = route.link("peer2").unwrap().unwrap();
    route.move_link(peer.index, &there).unwrap();
    // The fabric: both wires of the pod end there, and a third of a stranger.
    run(
        &there,
        "ip link add fabric type bridge; ip link add stranger type veth peer name peer3; ip link set fabric up; \
         for i in peer peer2 peer3; do ip link set $i master fabric; ip link set $i up; done; ip link set stranger up",
    );
    run(
        &here,
        "ip link set net1 up; ip link set net2 up; ip address add 10.0.0.1/24 dev net1; \
         ip address add 10.0.1.1/24 dev net2",
    );
    let questions = [
        question("10.0.0.1", ProbeKind::Duplicate),
        ProbeRequest { interface: "net2".into(), address: address("10.0.1.1"), kind: ProbeKind::Duplicate },
    ];
    assert_eq!(probe(&here, &questions, patience()).unwrap(), [ProbeOutcome::Passed, ProbeOutcome::Passed]);
    // A stranger with the same address is one still.
    run(&there, "ip address add 10.0.1.1/24 dev stranger");
    let verdicts = probe(&here, &questions, patience()).unwrap();
    assert!(matches!(&verdicts[..], [ProbeOutcome::Passed, ProbeOutcome::Conflict(_)]), "{verdicts:?}");
}
