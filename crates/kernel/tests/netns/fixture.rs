//! Helpers that create network namespaces and interfaces, and read the output of `ip`.

use ferroband_kernel::Netns;
use ferroband_kernel::rtnetlink::{Link, LinkKind, NewLink, RouteSocket};
use ipnet::IpNet;
use nix::sched::{CloneFlags, unshare};
use serde_json::Value;
use std::net::IpAddr;
use std::process::Command;

/// Moves the calling thread to a new network namespace and opens a socket there.
pub fn enter_new_netns() -> RouteSocket {
    unshare(CloneFlags::CLONE_NEWNET).expect("these tests need root");
    RouteSocket::open().unwrap()
}

/// Creates another network namespace. The calling thread stays in its namespace.
pub fn new_netns() -> Netns {
    std::thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNET).expect("these tests need root");
        Netns::current().unwrap()
    })
    .join()
    .unwrap()
}

/// Destination and gateway of the unicast routes of the main table through the interface.
pub fn main_routes(route: &mut RouteSocket, index: u32) -> Vec<(IpNet, Option<IpAddr>)> {
    let entries = route.all_routes().unwrap().into_iter();
    let through = entries.filter(|entry| entry.is_main_unicast() && entry.interface == Some(index));
    through.map(|entry| (entry.route.destination, entry.route.gateway)).collect()
}

/// Parsed output of `ip -j …` in the namespace of the calling thread.
pub fn ip_json(arguments: &str) -> Value {
    let output = Command::new("ip").args(["-j", "-d"]).args(arguments.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    match output.stdout.is_empty() {
        true => Value::Array(Vec::new()),
        false => serde_json::from_slice(&output.stdout).unwrap(),
    }
}

/// The interface `name` as `ip` shows it.
pub fn ip_link(name: &str) -> Value {
    ip_json(&format!("link show dev {name}"))[0].take()
}

/// Names of all interfaces except loopback, as `ip` shows them.
pub fn ip_link_names() -> Vec<String> {
    let links = ip_json("link show");
    let names = links.as_array().unwrap().iter().map(|link| link["ifname"].as_str().unwrap().to_owned());
    names.filter(|name| name != "lo").collect()
}

/// Creates a veth pair and returns the end `name`.
pub fn create_veth(route: &mut RouteSocket, name: &str, peer: &str) -> Link {
    route.create_link(&NewLink::new(name, LinkKind::Veth { peer })).unwrap();
    route.link(name).unwrap().unwrap()
}
