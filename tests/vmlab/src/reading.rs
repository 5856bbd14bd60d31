//! `ib_read_lat` and `ib_read_bw`, the programs of the documents, between two pods.

use crate::sriov::device;
use crate::succeeds_in;
use ferroband_cluster_tests::{inside, lab_command};
use std::process::{Child, Stdio};

/// A server in a pod, running until the test has its answer.
struct Server(Child);

impl Server {
    fn start(pod: &str, command: &str) -> Self {
        let args = ["kubectl", "--", "exec", pod, "--", "sh", "-c", command];
        let child = lab_command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a server");
        Self(child)
    }
}

impl Drop for Server {
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
    read_lat_by((server, &device(server)), (client, &device(client)), address)
}

/// The same for pods with several devices.
///
/// # Errors
/// When the client fails.
pub fn read_lat_by(server: End<'_>, client: End<'_>, address: &str) -> Result<String, String> {
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
pub type End<'a> = (&'a str, &'a str);

/// An emulated processor on a busy host has no steady speed, and then a program knows no time: it prints `inf`.
fn measure(program: &str, server: End<'_>, client: End<'_>, address: &str) -> Result<String, String> {
    let mut table = once(program, server, client, address)?;
    for _ in 0..3 {
        if !table.contains(" inf") {
            break;
        }
        table = once(program, server, client, address)?;
    }
    Ok(table)
}

fn once(program: &str, server: End<'_>, client: End<'_>, address: &str) -> Result<String, String> {
    let command = |device: &str| format!("{program} -d {device} -F --use_old_post_send");
    let _server = Server::start(server.0, &format!("timeout 240 {}", command(server.1)));
    succeeds_in(server.0, 120, "ss -tln | grep -q 18515 || netstat -tln | grep -q 18515");
    let seen = inside(client.0, &format!("timeout 200 {} {address} 2>&1", command(client.1)));
    let name = program.split(' ').next().unwrap_or_default();
    drop(inside(server.0, &format!("kill $(pidof {name})")));
    if seen.ok { Ok(seen.out) } else { Err(seen.out + &seen.err) }
}
