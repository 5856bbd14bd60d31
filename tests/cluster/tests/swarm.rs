//! Addresses by the hundred over many node daemons that are killed all the time, with the API server restarted in the
//! middle: none given twice, none lost, the pool filled to its last address.
//!
//! The auditor reads the API server (kubectl) and the kernel (`ip` in each daemon's namespace) and nothing else. 300
//! addresses here; `cargo xtask test soak` asks for 2,000.

use ferroband_cluster_tests::inspect::assigned_addresses;
use ferroband_cluster_tests::{TestObjects, eventually, lab_command, soak_rounds};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::process::{Child, Command, Stdio};

/// The swarm, running; it goes when its standard input ends.
struct SwarmProcess {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    members: Vec<String>,
}

impl SwarmProcess {
    #[track_caller]
    fn start(called: &str, members: usize, addresses: usize, ipam: &Value, how: &[&str]) -> Self {
        let (count, wanted, ipam) = (members.to_string(), addresses.to_string(), ipam.to_string());
        let args =
            ["swarm", "--members", &count, "--addresses", &wanted, "--called", called, "--ipam", &ipam];
        let mut child = lab_command(&[&args[..], how].concat())
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
        // Building, starting and healing tell of themselves on the same output.
        while !line.starts_with('{') {
            line.clear();
            let read = self.out.read_line(&mut line).expect("the swarm's output");
            assert!(read > 0, "the swarm ended: {:?}", self.child.wait());
        }
        serde_json::from_str(&line).expect("the swarm prints JSON")
    }

    /// Which addresses the kernel has, and in whose namespace.
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
        assert_eq!(self.read_report()["deleted"], true, "every DEL went well");
        assert!(self.child.wait().expect("the swarm ends").success());
    }
}

/// The addresses that the API server has as assigned within a prefix, and to whose node.
fn in_api(prefix: &str) -> BTreeMap<IpAddr, String> {
    assigned_addresses()
        .into_iter()
        .filter(|(address, _)| address.to_string().starts_with(prefix))
        .map(|(address, entry)| (address, entry["node"].as_str().unwrap_or_default().to_owned()))
        .collect()
}

/// Ask for `addresses` and hold what the API server and the kernel say against each other.
#[track_caller]
fn audited(called: &str, members: usize, addresses: usize, ipam: &Value, prefix: &str, full: bool) {
    let mut swarm = SwarmProcess::start(called, members, addresses, ipam, &["--kill", "--restart"]);
    let said = swarm.read_report();
    let kernel = swarm.kernel_addresses();
    let mut owners: BTreeMap<IpAddr, String> = BTreeMap::new();
    for (address, member) in &kernel {
        assert!(address.to_string().starts_with(prefix), "{address} is outside");
        if let Some(other) = owners.insert(*address, member.clone()) {
            panic!("{address} was given to {other} and to {member}");
        }
    }
    assert_eq!(owners.len(), addresses, "{}", said["report"]["last_failure"]);
    // What a killed ADD left is released by its DEL; a daemon that was away settles that when it is back.
    eventually("the API server knows exactly what the kernel has", 60, || {
        let api = in_api(prefix);
        if api == owners {
            Ok(())
        } else {
            Err(format!("{} in the API server, {} in the kernel", api.len(), owners.len()))
        }
    });
    if full {
        let over = &said["over"];
        assert_eq!(over["good"], false, "one more than there are: {over}");
        let told = over["answer"].to_string();
        assert!(told.contains(&format!("all {addresses} addresses of ")), "{told}");
        assert!(told.contains(called), "it says who holds them: {told}");
    }
    println!(
        "{called}: {}",
        json!({
            "kills": said["report"]["kills"], "failures": said["report"]["failures"], "seconds": said["report"]["seconds"],
        })
    );
    swarm.stop();
    eventually("everything is free again", 90, || {
        let left = in_api(prefix).len();
        if left == 0 { Ok(()) } else { Err(format!("{left} are still assigned")) }
    });
}

fn wanted() -> usize {
    if soak_rounds() > 1 { 2000 } else { 300 }
}

#[test]
fn many_x01_x03_from_a_wide_range_while_daemons_and_the_api_server_die() {
    let ipam = json!({"type": "whereabouts", "range": "10.60.0.0/21"});
    audited("wide", 8, wanted(), &ipam, "10.60.", false);
}

#[test]
fn many_x01_x03_from_a_range_that_fits_exactly() {
    let last = u32::from(std::net::Ipv4Addr::new(10, 61, 0, 0)) + wanted() as u32;
    let range = format!("10.61.0.1-{}/16", std::net::Ipv4Addr::from(last));
    audited("exact", 8, wanted(), &json!({"type": "whereabouts", "range": range}), "10.61.", true);
}

#[test]
fn many_a02_a_pool_of_21_among_more_nodes_than_it_has_granules() {
    let mut objects = TestObjects::default();
    objects.apply(
        "{apiVersion: spiderpool.spidernet.io/v2beta1, kind: SpiderIPPool, metadata: {name: swarm-91}, spec: {subnet: \
         172.92.0.0/16, ips: [172.92.0.100-172.92.0.120], gateway: 172.92.0.1}}",
    );
    let ipam = json!({"type": "spiderpool", "default_ipv4_ippool": ["swarm-91"]});
    let members = if wanted() > 300 { 30 } else { 12 };
    audited("seed", members, 21, &ipam, "172.92.", true);
}
