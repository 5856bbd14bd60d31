//! `ib_read_lat` and `ib_read_bw`, the programs of the documents, between two pods.

use crate::exec_eventually;
use crate::sriov::only_rdma_device;
use ferroband_cluster_tests::{exec_in_pod, lab_command};
use std::process::{Child, Stdio};

/// A server in a pod, running until the test has its answer.
struct PerftestServer(Child);

impl PerftestServer {
    fn start(pod: &str, command: &str) -> Self {
        let args = ["kubectl", "--", "exec", pod, "--", "sh", "-c", command];
        let child = lab_command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a server");
        Self(child)
    }
}

impl Drop for PerftestServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The client's table, or what it said when it failed. The two find each other at `address`, by TCP.
///
/// # Errors
/// When the client fails.
pub fn read_lat(server: &str, client: &str, address: &str) -> Result<String, String> {
    read_lat_between((server, &only_rdma_device(server)), (client, &only_rdma_device(client)), address)
}

/// The same for pods with several devices.
///
/// # Errors
/// When the client fails.
pub fn read_lat_between(
    server: PerftestEndpoint<'_>,
    client: PerftestEndpoint<'_>,
    address: &str,
) -> Result<String, String> {
    measure("ib_read_lat -n 100", server, client, address)
}

/// The same for how much, as document 002 has it: pods that share the devices of their nodes.
///
/// # Errors
/// When the client fails.
pub fn read_bw(server: &str, client: &str, address: &str, device: &str) -> Result<String, String> {
    measure("ib_read_bw -i 1 --report_gbits -n 200", (server, device), (client, device), address)
}

/// A pod and its device.
pub type PerftestEndpoint<'a> = (&'a str, &'a str);

/// An emulated processor on a busy host has no steady speed, and then a program knows no time: it prints `inf`.
fn measure(
    program: &str,
    server: PerftestEndpoint<'_>,
    client: PerftestEndpoint<'_>,
    address: &str,
) -> Result<String, String> {
    let mut table = measure_once(program, server, client, address)?;
    for _ in 0..3 {
        if !table.contains(" inf") {
            break;
        }
        table = measure_once(program, server, client, address)?;
    }
    Ok(table)
}

fn measure_once(
    program: &str,
    server: PerftestEndpoint<'_>,
    client: PerftestEndpoint<'_>,
    address: &str,
) -> Result<String, String> {
    let command = |device: &str| format!("{program} -d {device} -F --use_old_post_send");
    let _server = PerftestServer::start(server.0, &format!("timeout 240 {}", command(server.1)));
    exec_eventually(server.0, 120, "ss -tln | grep -q 18515 || netstat -tln | grep -q 18515");
    let seen = exec_in_pod(client.0, &format!("timeout 200 {} {address} 2>&1", command(client.1)));
    let name = program.split(' ').next().unwrap_or_default();
    drop(exec_in_pod(server.0, &format!("kill $(pidof {name})")));
    if seen.ok { Ok(seen.out) } else { Err(seen.out + &seen.err) }
}
