//! `ib_read_lat`, the program of the documents, between two pods.

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
    let options = "-F -n 100 --use_old_post_send";
    let _server = Server::start(server, &format!("timeout 240 ib_read_lat -d {} {options}", device(server)));
    succeeds_in(server, 120, "ss -tln | grep -q 18515 || netstat -tln | grep -q 18515");
    let seen =
        inside(client, &format!("timeout 200 ib_read_lat -d {} {options} {address} 2>&1", device(client)));
    let stop = inside(server, "kill $(pidof ib_read_lat)");
    drop(stop);
    if seen.ok { Ok(seen.out) } else { Err(seen.out + &seen.err) }
}
