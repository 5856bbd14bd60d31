//! `ib_read_lat` and `ib_read_bw` between two pods, as in the documents.

use crate::exec_eventually;
use crate::sriov::only_rdma_device;
use ferroband_cluster_tests::{current_lab, exec_in_pod};
use std::process::{Child, Stdio};

/// A perftest server in a pod, killed on drop.
struct PerftestServer(Child);

impl PerftestServer {
    fn start(pod: &str, command: &str) -> Self {
        let mut kubectl = current_lab().kubectl().expect("kubectl");
        kubectl.args(["exec", pod, "--", "sh", "-c", command]);
        let child = kubectl.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a server");
        Self(child)
    }
}

impl Drop for PerftestServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs `ib_read_lat` and returns the client's table, or its error output. The two connect over TCP at `address`.
///
/// # Errors
/// When the client fails.
pub fn read_lat(server: &str, client: &str, address: &str) -> Result<String, String> {
    read_lat_between((server, &only_rdma_device(server)), (client, &only_rdma_device(client)), address)
}

/// The same for pods with several RDMA devices.
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

/// Runs `ib_read_bw` as in document 002: pods that share the RDMA devices of their nodes.
///
/// # Errors
/// When the client fails.
pub fn read_bw(server: &str, client: &str, address: &str, device: &str) -> Result<String, String> {
    measure("ib_read_bw -i 1 --report_gbits -n 200", (server, device), (client, device), address)
}

/// A pod and its RDMA device.
pub type PerftestEndpoint<'a> = (&'a str, &'a str);

/// Retries if perftest prints `inf`: the clock of an emulated processor on a busy host is not steady.
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
    let output = exec_in_pod(client.0, &format!("timeout 200 {} {address} 2>&1", command(client.1)));
    let name = program.split(' ').next().unwrap_or_default();
    drop(exec_in_pod(server.0, &format!("kill $(pidof {name})")));
    if output.ok { Ok(output.out) } else { Err(output.out + &output.err) }
}
