//! The lab's network: a bridge in the control plane's namespace, a veth to each node, routes to its pods.
//!
//! No namespace has an interface of the host, so no packet can leave the lab.

use super::machine::LabMachine;
use crate::command::{command, run, run_line, succeeds};
use anyhow::Result;
use std::path::Path;

/// Address of the control plane, where the API server listens.
pub const CONTROL_ADDRESS: &str = "10.77.0.1";
/// Service IP range.
pub const SERVICE_RANGE: &str = "10.96.0.0/16";
/// Service IP of the API server, the first of the range.
pub const API_SERVICE_ADDRESS: &str = "10.96.0.1";
/// Pod IP range.
pub const POD_RANGE: &str = "10.78.0.0/16";

/// MTU for the simulated fabric: an IPoIB packet of 2044 bytes in a tunnel between nodes.
const CABLE_MTU: u32 = 9000;

/// A node's address on the bridge.
pub fn node_address(position: usize) -> String {
    format!("10.77.0.{}", 10 + position)
}

/// Pod IP range of a node.
pub fn node_pod_range(position: usize) -> String {
    format!("10.78.{position}.0/24")
}

fn create_namespace(machine: &LabMachine) -> Result<()> {
    if !Path::new("/run/netns").join(&machine.netns).exists() {
        run_line(&format!("ip netns add {}", machine.netns))?;
    }
    run_ip(machine, "link set lo up")?;
    for (key, value) in [("net.ipv4.ip_forward", "1"), ("net.ipv6.conf.all.forwarding", "1")] {
        let file = format!("/proc/sys/{}", key.replace('.', "/"));
        let net = format!("--net=/run/netns/{}", machine.netns);
        run(&mut command("nsenter", [&net, "--", "sh", "-c", &format!("echo {value} > {file}")]))?;
    }
    Ok(())
}

fn run_ip(machine: &LabMachine, line: &str) -> Result<()> {
    run_line(&format!("ip -n {} {line}", machine.netns))
}

fn has_link(machine: &LabMachine, link: &str) -> bool {
    succeeds(&mut command("ip", ["-n", &machine.netns, "link", "show", link]))
}

/// Creates the bridge with the control plane's address.
pub fn setup_control(machine: &LabMachine) -> Result<()> {
    create_namespace(machine)?;
    if !has_link(machine, "br0") {
        run_ip(machine, "link add br0 type bridge")?;
    }
    run_ip(machine, &format!("address replace {CONTROL_ADDRESS}/24 dev br0"))?;
    run_ip(machine, &format!("link set br0 mtu {CABLE_MTU} up"))
}

/// Creates a node's namespace, its veth to the bridge and its routes.
pub fn setup_node(control: &LabMachine, node: &LabMachine, position: usize) -> Result<()> {
    connect_node(control, node, position)?;
    let address = node_address(position);
    run_ip(node, &format!("address replace {address}/24 dev eth0"))?;
    // Service IPs are rewritten on output, which needs a route first.
    run_ip(node, &format!("route replace default via {CONTROL_ADDRESS}"))
}

/// The same for an emulated node: the veth is bridged to a tap, and the guest has the address.
pub fn setup_emulated_node(control: &LabMachine, node: &LabMachine, position: usize) -> Result<()> {
    connect_node(control, node, position)?;
    for (link, kind) in [("br0", "link add br0 type bridge"), ("tap0", "tuntap add tap0 mode tap")] {
        if !has_link(node, link) {
            run_ip(node, kind)?;
        }
    }
    for port in ["eth0", "tap0"] {
        run_ip(node, &format!("link set {port} mtu {CABLE_MTU} master br0 up"))?;
    }
    run_ip(node, &format!("link set br0 mtu {CABLE_MTU} up"))
}

/// Redirects the API server's service IP, for emulated nodes, which run without kube-proxy to save CPU time.
pub fn redirect_api_service(control: &LabMachine) -> Result<()> {
    let rule = format!(
        "-d {API_SERVICE_ADDRESS} -p tcp --dport 443 -j DNAT --to-destination {CONTROL_ADDRESS}:6443"
    );
    let iptables = |verb: &str| {
        format!("nsenter --net=/run/netns/{} iptables -w -t nat {verb} PREROUTING {rule}", control.netns)
    };
    if run_line(&iptables("-C")).is_ok() { Ok(()) } else { run_line(&iptables("-A")) }
}

/// Creates a node's namespace, its veth to the bridge, and the control plane's route to its pods.
fn connect_node(control: &LabMachine, node: &LabMachine, position: usize) -> Result<()> {
    create_namespace(node)?;
    let port = format!("node{position}");
    if !has_link(node, "eth0") {
        if has_link(control, &port) {
            run_ip(control, &format!("link delete {port}"))?;
        }
        run_ip(control, &format!("link add {port} type veth peer name eth0 netns {}", node.netns))?;
    }
    run_ip(control, &format!("link set {port} mtu {CABLE_MTU} master br0 up"))?;
    run_ip(node, &format!("link set eth0 mtu {CABLE_MTU} up"))?;
    run_ip(control, &format!("route replace {} via {}", node_pod_range(position), node_address(position)))
}

/// Adds routes from each node to the other nodes' pods.
pub fn add_pod_routes(nodes: &[LabMachine]) -> Result<()> {
    for (here, machine) in nodes.iter().enumerate() {
        for there in (0..nodes.len()).filter(|there| *there != here) {
            run_ip(machine, &format!("route replace {} via {}", node_pod_range(there), node_address(there)))?;
        }
    }
    Ok(())
}
