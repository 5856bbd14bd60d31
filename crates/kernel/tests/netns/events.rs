//! Changes, as they are heard; `ip` and files of sysfs make them.

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

/// Waits for a change that `wanted` takes.
fn expect(
    watch: &mut HardwareWatch,
    what: &str,
    mut wanted: impl FnMut(&HardwareEvent) -> bool,
) -> HardwareEvent {
    let until = Instant::now() + LONG;
    while let Some(change) = watch.wait(until.saturating_duration_since(Instant::now())).unwrap() {
        if wanted(&change) {
            return change;
        }
    }
    panic!("nobody said {what}");
}

#[test]
fn links_that_come_change_and_go() {
    enter_new_netns();
    let mut events = LinkEventSocket::open().unwrap();
    assert!(events.read().unwrap().is_empty());
    assert!(!readable(&events, 0));
    ip_json("link add one type veth peer name two");
    assert!(readable(&events, 1000));
    ip_json("link set one up");
    ip_json("link del one");
    let seen = events.read().unwrap();
    let named = |wanted: &str| {
        seen.iter().any(|event| matches!(event, LinkEvent::Changed(link) if link.name == wanted))
    };
    assert!(named("one") && named("two"), "{seen:?}");
    assert!(
        seen.iter().any(|event| matches!(event, LinkEvent::Changed(link) if link.name == "one" && link.up))
    );
    assert!(
        seen.iter().any(|event| matches!(event, LinkEvent::Removed(link) if link.name == "one")),
        "{seen:?}"
    );
    assert!(!readable(&events, 0));
}

#[test]
fn links_of_another_namespace_are_heard_there_only() {
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
fn a_flood_that_is_not_read_is_said_to_be_lost() {
    let mut route = enter_new_netns();
    let link = create_veth(&mut route, "one", "two");
    let mut events = LinkEventSocket::open().unwrap();
    for _ in 0..5000 {
        route.set_up(link.index).unwrap();
        route.set_down(link.index).unwrap();
    }
    let seen = events.read().unwrap();
    assert!(seen.contains(&LinkEvent::Lost), "{} events", seen.len());
    route.set_up(link.index).unwrap();
    let after = events.read().unwrap();
    assert!(matches!(after.last(), Some(LinkEvent::Changed(link)) if link.up), "it goes on: {after:?}");
}

#[test]
fn uevents_of_the_subsystems_asked_for() {
    enter_new_netns();
    let mut events = UeventSocket::open(&["net"]).unwrap();
    let mut deaf = UeventSocket::open(&["infiniband"]).unwrap();
    ip_json("link add one type bridge");
    assert!(readable(&events, 1000));
    let seen = events.read().unwrap();
    let event = seen
        .iter()
        .find_map(|told| match told {
            UeventItem::Event(event) if event.path == "/devices/virtual/net/one" => Some(event),
            _ => None,
        })
        .unwrap_or_else(|| panic!("{seen:?}"));
    assert_eq!((event.action.as_str(), event.subsystem.as_str()), ("add", "net"));
    assert_eq!(event.properties["INTERFACE"], "one");
    assert!(deaf.read().unwrap().is_empty());
}

#[test]
fn a_watch_hears_both() {
    let mut route = enter_new_netns();
    let mut watch = LinuxHost::default().watch().unwrap();
    assert_eq!(watch.wait(Duration::from_millis(20)).unwrap(), None);
    let before = Instant::now();
    create_veth(&mut route, "one", "two");
    assert!(readable(&watch, 1000));
    expect(&mut watch, "that one was added", |change| {
        matches!(change, HardwareEvent::Device { action, subsystem, path }
            if action == "add" && subsystem == "net" && path.ends_with("/net/one"))
    });
    assert!(before.elapsed() < Duration::from_secs(1));
    let one = route.link("one").unwrap().unwrap();
    route.set_up(one.index).unwrap();
    expect(
        &mut watch,
        "that one is up",
        |change| matches!(change, HardwareEvent::LinkChanged(link) if link.name == "one" && link.up),
    );
    route.delete_link(one.index).unwrap();
    // In either order: they come by two ways.
    let (mut gone, mut removed) = (false, false);
    expect(&mut watch, "both that one went and that it was removed", |change| {
        gone |= matches!(change, HardwareEvent::LinkRemoved(link) if link.name == "one");
        removed |= matches!(change, HardwareEvent::Device { action, path, .. }
            if action == "remove" && path.ends_with("/net/one"));
        gone && removed
    });
}

#[test]
fn sysfs_is_read_as_another_namespace_sees_it() {
    let mut route = enter_new_netns();
    let pod = new_netns();
    let mut inside = ferroband_kernel::RouteSocket::open_in(&pod).unwrap();
    create_veth(&mut route, "outside", "outside2");
    create_veth(&mut inside, "net1", "net2");
    let mut seen = Vec::new();
    LinuxHost::default()
        .with_netns_sysfs(&pod, &mut |root| {
            for name in ["net1", "outside"] {
                seen.push(
                    ferroband_kernel::sysfs::net::netdev(root, name).unwrap().map(|netdev| netdev.name),
                );
            }
        })
        .unwrap();
    assert_eq!(seen, [Some("net1".to_owned()), None]);
    let mounts = std::fs::read_to_string("/proc/thread-self/mounts").unwrap();
    let own = mounts.lines().filter(|line| line.split(' ').nth(1) == Some("/sys")).count();
    assert!(own <= 1, "nothing stays mounted");
}
