//! Tests of hardware events, triggered with `ip` and sysfs.

use super::fixture::{create_veth, enter_new_netns, ip_json, new_netns};
use ferroband_kernel::rtnetlink::LinkEventSocket;
use ferroband_kernel::uevent::UeventSocket;
use ferroband_kernel::watch::EventSource;
use ferroband_kernel::{Hardware, HardwareEvent, HardwareWatch, LinuxHost};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(5);

/// Whether the descriptor becomes readable within this many milliseconds.
fn readable(source: &impl AsFd, milliseconds: u16) -> bool {
    let mut fds = [PollFd::new(source.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::from(milliseconds)).unwrap() == 1
}

fn read(source: &mut impl EventSource) -> Vec<HardwareEvent> {
    let mut events = VecDeque::new();
    source.read(&mut events).unwrap();
    events.into()
}

/// Waits for an event for which `matches_event` returns true. Panics if there is none within `LONG`.
fn expect(
    watch: &mut HardwareWatch,
    what: &str,
    mut matches_event: impl FnMut(&HardwareEvent) -> bool,
) -> HardwareEvent {
    let until = Instant::now() + LONG;
    while let Some(event) = watch.wait(until.saturating_duration_since(Instant::now())).unwrap() {
        if matches_event(&event) {
            return event;
        }
    }
    panic!("no event received: {what}");
}

#[test]
fn added_changed_and_removed_links_are_reported() {
    enter_new_netns();
    let mut events = LinkEventSocket::open().unwrap();
    assert!(read(&mut events).is_empty());
    assert!(!readable(&events, 0));
    ip_json("link add one type veth peer name two");
    assert!(readable(&events, 1000));
    ip_json("link set one up");
    ip_json("link del one");
    let received = read(&mut events);
    let changed = |name: &str| {
        received.iter().any(|event| matches!(event, HardwareEvent::LinkChanged(link) if link.name == name))
    };
    assert!(changed("one") && changed("two"), "{received:?}");
    assert!(
        received
            .iter()
            .any(|event| matches!(event, HardwareEvent::LinkChanged(link) if link.name == "one" && link.up))
    );
    assert!(
        received.iter().any(|event| matches!(event, HardwareEvent::LinkRemoved(link) if link.name == "one")),
        "{received:?}"
    );
    assert!(!readable(&events, 0));
}

#[test]
fn link_events_are_limited_to_their_namespace() {
    enter_new_netns();
    let pod = new_netns();
    let mut here = LinkEventSocket::open().unwrap();
    let mut there = pod.run(LinkEventSocket::open).unwrap().unwrap();
    pod.run(|| ip_json("link add one type bridge")).unwrap();
    assert!(readable(&there, 1000));
    assert!(
        read(&mut there)
            .iter()
            .any(|event| matches!(event, HardwareEvent::LinkChanged(link) if link.name == "one"))
    );
    assert!(read(&mut here).is_empty());
}

#[test]
fn overflow_is_reported_as_lost_events() {
    let mut route = enter_new_netns();
    let link = create_veth(&mut route, "one", "two");
    let mut events = LinkEventSocket::open().unwrap();
    for _ in 0..5000 {
        route.set_up(link.index).unwrap();
        route.set_down(link.index).unwrap();
    }
    let received = read(&mut events);
    assert!(received.contains(&HardwareEvent::Lost), "{} events", received.len());
    route.set_up(link.index).unwrap();
    let after = read(&mut events);
    assert!(
        matches!(after.last(), Some(HardwareEvent::LinkChanged(link)) if link.up),
        "events continue: {after:?}"
    );
}

#[test]
fn uevents_are_filtered_by_subsystem() {
    enter_new_netns();
    let mut events = UeventSocket::open(&["net"]).unwrap();
    let mut deaf = UeventSocket::open(&["infiniband"]).unwrap();
    ip_json("link add one type bridge");
    assert!(readable(&events, 1000));
    let received = read(&mut events);
    let added = HardwareEvent::Device {
        action: "add".to_owned(),
        subsystem: "net".to_owned(),
        path: "/devices/virtual/net/one".to_owned(),
    };
    assert!(received.contains(&added), "{received:?}");
    assert!(read(&mut deaf).is_empty());
}

#[test]
fn watch_reports_uevents_and_link_events() {
    let mut route = enter_new_netns();
    let mut watch = LinuxHost::default().watch().unwrap();
    assert_eq!(watch.wait(Duration::from_millis(20)).unwrap(), None);
    let before = Instant::now();
    create_veth(&mut route, "one", "two");
    expect(&mut watch, "one was added", |event| {
        matches!(event, HardwareEvent::Device { action, subsystem, path }
            if action == "add" && subsystem == "net" && path.ends_with("/net/one"))
    });
    assert!(before.elapsed() < Duration::from_secs(1));
    let one = route.link("one").unwrap().unwrap();
    route.set_up(one.index).unwrap();
    expect(
        &mut watch,
        "one is up",
        |event| matches!(event, HardwareEvent::LinkChanged(link) if link.name == "one" && link.up),
    );
    route.delete_link(one.index).unwrap();
    // The link event and the uevent of the removal come from different sockets, so they can arrive in either
    // order.
    let (mut gone, mut removed) = (false, false);
    expect(&mut watch, "one was removed, as link event and as uevent", |event| {
        gone |= matches!(event, HardwareEvent::LinkRemoved(link) if link.name == "one");
        removed |= matches!(event, HardwareEvent::Device { action, path, .. }
            if action == "remove" && path.ends_with("/net/one"));
        gone && removed
    });
}

#[test]
fn sysfs_of_another_namespace_is_readable() {
    let mut route = enter_new_netns();
    let pod = new_netns();
    let mut inside = ferroband_kernel::RouteSocket::open_in(&pod).unwrap();
    create_veth(&mut route, "outside", "outside2");
    create_veth(&mut inside, "net1", "net2");
    let mut received = Vec::new();
    LinuxHost::default()
        .with_netns_sysfs(&pod, &mut |root| {
            for name in ["net1", "outside"] {
                received.push(
                    ferroband_kernel::sysfs::net::netdev(root, name).unwrap().map(|netdev| netdev.name),
                );
            }
        })
        .unwrap();
    assert_eq!(received, [Some("net1".to_owned()), None]);
    let mounts = std::fs::read_to_string("/proc/thread-self/mounts").unwrap();
    let own = mounts.lines().filter(|line| line.split(' ').nth(1) == Some("/sys")).count();
    assert!(own <= 1, "no mount remains");
}
