//! Tests of address probes on Ethernet. The pod's interface is in the namespace of the test, and all other hosts
//! are in a second namespace.

use super::fixture::{create_veth, enter_new_netns, ip_json};
use ferroband_kernel::probe::{ProbeKind, ProbeOutcome, ProbeRequest, ProbeTimeouts, announce, probe};
use ferroband_kernel::{Netns, RouteSocket};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Creates a veth pair: `net1` in a new namespace of the calling thread, and `peer`, which is up and has
/// `addresses`, in another one. Returns both namespaces.
fn pod_and_peer(addresses: &[&str]) -> (Netns, Netns) {
    let mut route = enter_new_netns();
    let pod = Netns::current().unwrap();
    let peer_netns = std::thread::spawn(|| {
        enter_new_netns();
        Netns::current().unwrap()
    })
    .join()
    .unwrap();
    create_veth(&mut route, "net1", "peer");
    let peer = route.link("peer").unwrap().unwrap();
    route.move_link(peer.index, &peer_netns).unwrap();
    let mut other = RouteSocket::open_in(&peer_netns).unwrap();
    let peer = other.link("peer").unwrap().unwrap();
    other.set_up(peer.index).unwrap();
    // Disable duplicate address detection of the peer. It would start when the link gets its carrier, and the peer
    // does not reply until it has finished.
    let written = peer_netns.run(|| std::fs::write("/proc/sys/net/ipv6/conf/peer/accept_dad", "0"));
    written.unwrap().unwrap();
    for address in addresses {
        other.add_address(peer.index, address.parse().unwrap()).unwrap();
    }
    (pod, peer_netns)
}

fn request(address: &str, kind: ProbeKind) -> ProbeRequest {
    ProbeRequest { interface: "net1".into(), address: address.parse().unwrap(), kind }
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn timeouts() -> ProbeTimeouts {
    ProbeTimeouts { reply: Duration::from_millis(400), ..ProbeTimeouts::default() }
}

// Case: ipam P01, ipam P04
#[test]
fn conflicts_and_gateways_of_both_families_are_probed_in_parallel() {
    let (pod, peer_netns) = pod_and_peer(&["10.0.0.1/24", "fd00::1/64"]);
    let hardware = RouteSocket::open_in(&peer_netns).unwrap().link("peer").unwrap().unwrap().address;
    let requests = [
        request("10.0.0.1", ProbeKind::Duplicate),
        request("10.0.0.2", ProbeKind::Duplicate),
        request("10.0.0.2", ProbeKind::Gateway(address("10.0.0.1"))),
        request("10.0.0.2", ProbeKind::Gateway(address("10.0.0.9"))),
        request("fd00::1", ProbeKind::Duplicate),
        request("fd00::2", ProbeKind::Duplicate),
        ProbeRequest { interface: "net9".into(), address: address("10.0.0.1"), kind: ProbeKind::Duplicate },
    ];
    let begin = Instant::now();
    let outcomes = probe(&pod, &requests, timeouts()).unwrap();
    assert!(matches!(&outcomes[0], ProbeOutcome::Conflict(by) if *by == hardware), "{outcomes:?}");
    assert_eq!(outcomes[1..4], [ProbeOutcome::Passed, ProbeOutcome::Passed, ProbeOutcome::GatewaySilent]);
    assert!(matches!(&outcomes[4], ProbeOutcome::Conflict(_)), "{outcomes:?}");
    assert_eq!(outcomes[5..], [ProbeOutcome::Passed, ProbeOutcome::Inconclusive]);
    // Each probe makes three attempts. All probes run in parallel, so together they take less than six
    // seconds.
    assert!(begin.elapsed() < Duration::from_secs(6), "{:?}", begin.elapsed());
    assert!(
        ip_json("link show dev net1")[0]["flags"].to_string().contains("UP"),
        "the probe sets the interface up"
    );
}

#[test]
fn interface_without_carrier_is_inconclusive_after_the_timeout() {
    let mut route = enter_new_netns();
    create_veth(&mut route, "net1", "peer");
    let pod = Netns::current().unwrap();
    let timeouts = ProbeTimeouts { carrier: Duration::from_millis(300), ..ProbeTimeouts::default() };
    let begin = Instant::now();
    let outcomes = probe(&pod, &[request("10.0.0.1", ProbeKind::Duplicate)], timeouts).unwrap();
    assert_eq!(outcomes, [ProbeOutcome::Inconclusive]);
    assert!(begin.elapsed() < Duration::from_secs(5));
}

// Case: ipam P02
#[test]
fn announcement_updates_the_neighbour_cache() {
    let (pod, peer_netns) = pod_and_peer(&["10.0.0.1/24"]);
    let mut route = RouteSocket::open_in(&pod).unwrap();
    let link = route.link("net1").unwrap().unwrap();
    route.set_up(link.index).unwrap();
    let stale = "ip neighbour replace 10.0.0.2 lladdr 02:00:00:00:00:99 dev peer nud stale";
    let run = |command: &str| {
        let words: Vec<_> = command.split(' ').map(str::to_owned).collect();
        let output =
            peer_netns.run(|| std::process::Command::new(&words[0]).args(&words[1..]).output().unwrap());
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    run(stale);
    let mac: Vec<_> = link.address.iter().map(|byte| format!("{byte:02x}")).collect();
    for _ in 0..100 {
        announce(&pod, "net1", address("10.0.0.2")).unwrap();
        if run("ip neighbour show dev peer").contains(&mac.join(":")) {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{}", run("ip neighbour show dev peer"));
}

/// By default Linux answers ARP requests on any interface, so interfaces of one pod on the same fabric answer for
/// each other. That is no conflict.
// Case: ipam P02
#[test]
fn other_interfaces_of_the_same_pod_are_no_conflict() {
    let (pod, peer_netns) = pod_and_peer(&[]);
    let run = |netns: &Netns, script: &str| {
        let output = netns.run(|| std::process::Command::new("sh").args(["-ec", script]).output().unwrap());
        let output = output.unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let mut route = RouteSocket::open_in(&pod).unwrap();
    create_veth(&mut route, "net2", "peer2");
    let peer = route.link("peer2").unwrap().unwrap();
    route.move_link(peer.index, &peer_netns).unwrap();
    // The bridge `fabric` connects both interfaces of the pod and the interface `stranger` of another host.
    run(
        &peer_netns,
        "ip link add fabric type bridge; ip link add stranger type veth peer name peer3; ip link set fabric up; \
         for i in peer peer2 peer3; do ip link set $i master fabric; ip link set $i up; done; ip link set stranger up",
    );
    run(
        &pod,
        "ip link set net1 up; ip link set net2 up; ip address add 10.0.0.1/24 dev net1; \
         ip address add 10.0.1.1/24 dev net2",
    );
    let requests = [
        request("10.0.0.1", ProbeKind::Duplicate),
        ProbeRequest { interface: "net2".into(), address: address("10.0.1.1"), kind: ProbeKind::Duplicate },
    ];
    assert_eq!(probe(&pod, &requests, timeouts()).unwrap(), [ProbeOutcome::Passed, ProbeOutcome::Passed]);
    // If another host has the same address, the probe still reports a conflict.
    run(&peer_netns, "ip address add 10.0.1.1/24 dev stranger");
    let outcomes = probe(&pod, &requests, timeouts()).unwrap();
    assert!(matches!(&outcomes[..], [ProbeOutcome::Passed, ProbeOutcome::Conflict(_)]), "{outcomes:?}");
}
