//! Changes, as they are heard; `ip` and files of sysfs make them.

use super::bench::{another, fresh, ip, wire};
use ferroband_kernel::route::{LinkEvent, LinkEvents};
use ferroband_kernel::uevent::{Told, Uevents};
use ferroband_kernel::{Change, Hardware, Linux, Watch};
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
fn expect(watch: &mut Watch, what: &str, mut wanted: impl FnMut(&Change) -> bool) -> Change {
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
    fresh();
    let mut events = LinkEvents::here().unwrap();
    assert!(events.read().unwrap().is_empty());
    assert!(!readable(&events, 0));
    ip("link add one type veth peer name two");
    assert!(readable(&events, 1000));
    ip("link set one up");
    ip("link del one");
    let seen = events.read().unwrap();
    let named = |wanted: &str| {
        seen.iter().any(|event| matches!(event, LinkEvent::Changed(link) if link.name == wanted))
    };
    assert!(named("one") && named("two"), "{seen:?}");
    assert!(
        seen.iter().any(|event| matches!(event, LinkEvent::Changed(link) if link.name == "one" && link.up))
    );
    assert!(
        seen.iter().any(|event| matches!(event, LinkEvent::Gone(link) if link.name == "one")),
        "{seen:?}"
    );
    assert!(!readable(&events, 0));
}

#[test]
fn links_of_another_namespace_are_heard_there_only() {
    fresh();
    let pod = another();
    let mut here = LinkEvents::here().unwrap();
    let mut there = LinkEvents::inside(&pod).unwrap();
    pod.run(|| ip("link add one type bridge")).unwrap();
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
    let mut route = fresh();
    let link = wire(&mut route, "one", "two");
    let mut events = LinkEvents::here().unwrap();
    for _ in 0..5000 {
        route.up(link.index).unwrap();
        route.down(link.index).unwrap();
    }
    let seen = events.read().unwrap();
    assert!(seen.contains(&LinkEvent::Lost), "{} events", seen.len());
    route.up(link.index).unwrap();
    let after = events.read().unwrap();
    assert!(matches!(after.last(), Some(LinkEvent::Changed(link)) if link.up), "it goes on: {after:?}");
}

#[test]
fn uevents_of_the_subsystems_asked_for() {
    fresh();
    let mut events = Uevents::here(&["net"]).unwrap();
    let mut deaf = Uevents::here(&["infiniband"]).unwrap();
    ip("link add one type bridge");
    assert!(readable(&events, 1000));
    let seen = events.read().unwrap();
    let event = seen
        .iter()
        .find_map(|told| match told {
            Told::Event(event) if event.path == "/devices/virtual/net/one" => Some(event),
            _ => None,
        })
        .unwrap_or_else(|| panic!("{seen:?}"));
    assert_eq!((event.action.as_str(), event.subsystem.as_str()), ("add", "net"));
    assert_eq!(event.properties["INTERFACE"], "one");
    assert!(deaf.read().unwrap().is_empty());
}

#[test]
fn a_watch_hears_both() {
    let mut route = fresh();
    let mut watch = Linux::default().watch().unwrap();
    assert_eq!(watch.wait(Duration::from_millis(20)).unwrap(), None);
    let before = Instant::now();
    wire(&mut route, "one", "two");
    assert!(readable(&watch, 1000));
    expect(&mut watch, "that one was added", |change| {
        matches!(change, Change::Device { action, subsystem, path }
            if action == "add" && subsystem == "net" && path.ends_with("/net/one"))
    });
    assert!(before.elapsed() < Duration::from_secs(1));
    let one = route.link("one").unwrap().unwrap();
    route.up(one.index).unwrap();
    expect(
        &mut watch,
        "that one is up",
        |change| matches!(change, Change::Link(link) if link.name == "one" && link.up),
    );
    route.delete(one.index).unwrap();
    // In either order: they come by two ways.
    let (mut gone, mut removed) = (false, false);
    expect(&mut watch, "both that one went and that it was removed", |change| {
        gone |= matches!(change, Change::LinkGone(link) if link.name == "one");
        removed |= matches!(change, Change::Device { action, path, .. }
            if action == "remove" && path.ends_with("/net/one"));
        gone && removed
    });
}

#[test]
fn sysfs_is_read_as_another_namespace_sees_it() {
    let mut route = fresh();
    let pod = another();
    let mut inside = ferroband_kernel::Route::inside(&pod).unwrap();
    wire(&mut route, "outside", "outside2");
    wire(&mut inside, "net1", "net2");
    let mut seen = Vec::new();
    Linux::default()
        .look_inside(&pod, &mut |root| {
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
