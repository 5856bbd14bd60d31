//! Hundreds of addresses over many node daemons that are killed continuously, with an API server restart half-way: none
//! is assigned twice, none leaks, and the pool is filled to its last address.
//!
//! The audit uses only the API server (kubectl) and the kernel (`ip` in each daemon's namespace). 300 addresses here,
//! 2,000 in `cargo xtask test soak`.

use ferroband_cluster_tests::inspect::assigned_addresses;
use ferroband_cluster_tests::{TestObjects, eventually, lab_cli, soak_rounds};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::process::{Child, Command, Stdio};

/// A running `xtask lab swarm`; it stops when its standard input is closed.
struct SwarmProcess {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    members: Vec<String>,
}

impl SwarmProcess {
    #[track_caller]
    fn start(called: &str, members: usize, addresses: usize, ipam: &Value, how: &[&str]) -> Self {
        let (count, total, ipam) = (members.to_string(), addresses.to_string(), ipam.to_string());
        let args = ["swarm", "--members", &count, "--addresses", &total, "--called", called, "--ipam", &ipam];
        let mut child = lab_cli(&[&args[..], how].concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the swarm starts");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        let members = (0..members).map(|member| format!("{called}-{member}")).collect();
        Self { child, out, members }
    }

    #[track_caller]
    fn read_report(&mut self) -> Value {
        let mut line = String::new();
        // Progress of building and starting is on the same output.
        while !line.starts_with('{') {
            line.clear();
            let read = self.out.read_line(&mut line).expect("the swarm's output");
            assert!(read > 0, "the swarm ended: {:?}", self.child.wait());
        }
        serde_json::from_str(&line).expect("the swarm prints JSON")
    }

    /// Addresses in the kernel and the member whose namespace has them.
    fn kernel_addresses(&self) -> Vec<(IpAddr, String)> {
        let mut found = Vec::new();
        for member in &self.members {
            let shown =
                Command::new("ip").args(["-n", member, "-j", "address", "show", "dev", "lo"]).output();
            let links: Value =
                serde_json::from_slice(&shown.expect("ip runs").stdout).expect("ip prints JSON");
            for info in links[0]["addr_info"].as_array().into_iter().flatten() {
                let address: IpAddr = info["local"].as_str().unwrap_or_default().parse().expect("an address");
                if !address.is_loopback() {
                    found.push((address, member.clone()));
                }
            }
        }
        found
    }

    #[track_caller]
    fn stop(mut self) {
        drop(self.child.stdin.take());
        assert_eq!(self.read_report()["deleted"], true, "every DEL succeeded");
        assert!(self.child.wait().expect("the swarm ends").success());
    }
}

/// Assigned addresses with this prefix and their nodes, from the API server.
fn api_addresses(prefix: &str) -> BTreeMap<IpAddr, String> {
    assigned_addresses()
        .into_iter()
        .filter(|(address, _)| address.to_string().starts_with(prefix))
        .map(|(address, entry)| (address, entry["node"].as_str().unwrap_or_default().to_owned()))
        .collect()
}

/// Requests `addresses` addresses and compares the API server with the kernel.
#[track_caller]
fn run_and_audit(called: &str, members: usize, addresses: usize, ipam: &Value, prefix: &str, full: bool) {
    let mut swarm = SwarmProcess::start(called, members, addresses, ipam, &["--kill", "--restart"]);
    let report = swarm.read_report();
    let kernel = swarm.kernel_addresses();
    let mut owners: BTreeMap<IpAddr, String> = BTreeMap::new();
    for (address, member) in &kernel {
        assert!(address.to_string().starts_with(prefix), "{address} is outside the range");
        if let Some(other) = owners.insert(*address, member.clone()) {
            panic!("{address} was assigned to {other} and to {member}");
        }
    }
    assert_eq!(owners.len(), addresses, "{}", report["report"]["last_failure"]);
    // DEL releases the address of a killed ADD; a daemon that was down completes the release after its restart.
    eventually("API server and kernel have the same addresses", 60, || {
        let api = api_addresses(prefix);
        if api == owners {
            Ok(())
        } else {
            Err(format!("{} in the API server, {} in the kernel", api.len(), owners.len()))
        }
    });
    if full {
        let over = &report["over"];
        assert_eq!(over["good"], false, "an ADD beyond the range must fail: {over}");
        let message = over["answer"].to_string();
        assert!(message.contains(&format!("all {addresses} addresses of ")), "{message}");
        assert!(message.contains(called), "the error names the holders: {message}");
    }
    println!(
        "{called}: {}",
        json!({
            "kills": report["report"]["kills"], "failures": report["report"]["failures"], "seconds": report["report"]["seconds"],
        })
    );
    swarm.stop();
    eventually("all addresses are released", 90, || {
        let left = api_addresses(prefix).len();
        if left == 0 { Ok(()) } else { Err(format!("{left} are still assigned")) }
    });
}

fn address_count() -> usize {
    if soak_rounds() > 1 { 2000 } else { 300 }
}

// Case: ipam X01, ipam X03
#[test]
fn many_addresses_of_a_wide_range_while_daemons_and_the_api_server_are_killed() {
    let ipam = json!({"type": "whereabouts", "range": "10.60.0.0/21"});
    run_and_audit("wide", 8, address_count(), &ipam, "10.60.", false);
}

// Case: ipam X01, ipam X03
#[test]
fn many_addresses_fill_a_range_exactly() {
    let last = u32::from(std::net::Ipv4Addr::new(10, 61, 0, 0)) + address_count() as u32;
    let range = format!("10.61.0.1-{}/16", std::net::Ipv4Addr::from(last));
    run_and_audit(
        "exact",
        8,
        address_count(),
        &json!({"type": "whereabouts", "range": range}),
        "10.61.",
        true,
    );
}

// Case: ipam A02
#[test]
fn many_nodes_share_a_pool_of_21_addresses() {
    let mut objects = TestObjects::default();
    objects.apply(
        "{apiVersion: spiderpool.spidernet.io/v2beta1, kind: SpiderIPPool, metadata: {name: swarm-91}, spec: {subnet: \
         172.92.0.0/16, ips: [172.92.0.100-172.92.0.120], gateway: 172.92.0.1}}",
    );
    let ipam = json!({"type": "spiderpool", "default_ipv4_ippool": ["swarm-91"]});
    let members = if address_count() > 300 { 30 } else { 12 };
    run_and_audit("seed", members, 21, &ipam, "172.92.", true);
}
