//! Namespaces to work in, and `ip` to look with.

use ferroband_kernel::Netns;
use ferroband_kernel::rtnetlink::{Link, LinkKind, NewLink, RouteSocket};
use nix::sched::{CloneFlags, unshare};
use serde_json::Value;
use std::process::Command;

/// Puts the calling thread into a fresh network namespace and opens a socket there.
pub fn enter_new_netns() -> RouteSocket {
    unshare(CloneFlags::CLONE_NEWNET).expect("these tests need root");
    RouteSocket::open().unwrap()
}

/// Another fresh network namespace.
pub fn new_netns() -> Netns {
    std::thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNET).expect("these tests need root");
        Netns::current().unwrap()
    })
    .join()
    .unwrap()
}

/// What `ip -j …` says in the calling thread's namespace.
pub fn ip_json(arguments: &str) -> Value {
    let output = Command::new("ip").args(["-j", "-d"]).args(arguments.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    match output.stdout.is_empty() {
        true => Value::Array(Vec::new()),
        false => serde_json::from_slice(&output.stdout).unwrap(),
    }
}

/// The one interface of this name, as `ip` sees it.
pub fn ip_link(name: &str) -> Value {
    ip_json(&format!("link show dev {name}"))[0].take()
}

/// The names of all interfaces but the loopback, as `ip` sees them.
pub fn ip_link_names() -> Vec<String> {
    let links = ip_json("link show");
    let names = links.as_array().unwrap().iter().map(|link| link["ifname"].as_str().unwrap().to_owned());
    names.filter(|name| name != "lo").collect()
}

/// A wire from `name` to `peer`; this end of it.
pub fn create_veth(route: &mut RouteSocket, name: &str, peer: &str) -> Link {
    route.create_link(&NewLink::new(name, LinkKind::Veth { peer })).unwrap();
    route.link(name).unwrap().unwrap()
}
