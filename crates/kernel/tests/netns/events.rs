//! Tests of hardware events, triggered with `ip` and sysfs.

use super::fixture::{create_veth, enter_new_netns, ip_json, new_netns};
use ferroband_kernel::rtnetlink::{LinkEvent, LinkEventSocket};
use ferroband_kernel::uevent::{UeventItem, UeventSocket};
use ferroband_kernel::{Hardware, HardwareEvent, HardwareWatch, LinuxHost};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(5);

/// Whether the descriptor becomes readable within this many milliseconds.
fn readable(source: &impl AsFd, milliseconds: u16) -> bool {
    let mut fds = [PollFd::new(source.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::from(milliseconds)).unwrap() == 1
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
    assert!(events.read().unwrap().is_empty());
    assert!(!readable(&events, 0));
    ip_json("link add one type veth peer name two");
    assert!(readable(&events, 1000));
    ip_json("link set one up");
    ip_json("link del one");
    let received = events.read().unwrap();
    let changed = |name: &str| {
        received.iter().any(|event| matches!(event, LinkEvent::Changed(link) if link.name == name))
    };
    assert!(changed("one") && changed("two"), "{received:?}");
    assert!(
        received
            .iter()
            .any(|event| matches!(event, LinkEvent::Changed(link) if link.name == "one" && link.up))
    );
    assert!(
        received.iter().any(|event| matches!(event, LinkEvent::Removed(link) if link.name == "one")),
        "{received:?}"
    );
    assert!(!readable(&events, 0));
}

#[test]
fn link_events_are_limited_to_their_namespace() {
    enter_new_netns();
    let pod = new_netns();
    let mut here = LinkEventSocket::open().unwrap();
    let mut there = LinkEventSocket::open_in(&pod).unwrap();
    pod.run(|| ip_json("link add one type bridge")).unwrap();
    assert!(readable(&there, 1000));
    assert!(
        there
            .read()
            .unwrap()
            .iter()
            .any(|event| matches!(event, LinkEvent::Changed(link) if link.name == "one"))
    );
    assert!(here.read().unwrap().is_empty());
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
    let received = events.read().unwrap();
    assert!(received.contains(&LinkEvent::Lost), "{} events", received.len());
    route.set_up(link.index).unwrap();
    let after = events.read().unwrap();
    assert!(matches!(after.last(), Some(LinkEvent::Changed(link)) if link.up), "events continue: {after:?}");
}

#[test]
fn uevents_are_filtered_by_subsystem() {
    enter_new_netns();
    let mut events = UeventSocket::open(&["net"]).unwrap();
    let mut deaf = UeventSocket::open(&["infiniband"]).unwrap();
    ip_json("link add one type bridge");
    assert!(readable(&events, 1000));
    let received = events.read().unwrap();
    let event = received
        .iter()
        .find_map(|told| match told {
            UeventItem::Event(event) if event.path == "/devices/virtual/net/one" => Some(event),
            _ => None,
        })
        .unwrap_or_else(|| panic!("{received:?}"));
    assert_eq!((event.action.as_str(), event.subsystem.as_str()), ("add", "net"));
    assert_eq!(event.properties["INTERFACE"], "one");
    assert!(deaf.read().unwrap().is_empty());
}

#[test]
fn watch_reports_uevents_and_link_events() {
    let mut route = enter_new_netns();
    let mut watch = LinuxHost::default().watch().unwrap();
    assert_eq!(watch.wait(Duration::from_millis(20)).unwrap(), None);
    let before = Instant::now();
    create_veth(&mut route, "one", "two");
    assert!(readable(&watch, 1000));
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
