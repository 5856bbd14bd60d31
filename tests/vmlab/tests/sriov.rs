//! Pods with virtual functions on two kernels, RDMA devices in exclusive mode.

use ferroband_cluster_tests::evidence::{interface, ipv4};
use ferroband_cluster_tests::{Objects, inside, lab_command, nodes, on};
use ferroband_vmlab_tests::sriov::{device, functions, guid, holder, network};
use ferroband_vmlab_tests::{POD, complaints, say, succeeds_in};
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

/// `ib_read_lat` of two pods: its table, or what it said when it failed.
fn read_lat(server: &str, client: &str, address: &str) -> Result<String, String> {
    let options = "-F -n 100 --use_old_post_send";
    let _server = Server::start(server, &format!("timeout 240 ib_read_lat -d {} {options}", device(server)));
    succeeds_in(server, 120, "ss -tln | grep -q 18515 || netstat -tln | grep -q 18515");
    let seen =
        inside(client, &format!("timeout 200 ib_read_lat -d {} {options} {address} 2>&1", device(client)));
    let stop = inside(server, "kill $(pidof ib_read_lat)");
    drop(stop);
    if seen.ok { Ok(seen.out) } else { Err(seen.out + &seen.err) }
}

#[test]
fn pods_with_functions_read_each_others_memory_and_see_nothing_else() {
    let nodes = nodes();
    let mut objects = Objects::default();
    functions(&mut objects, &nodes, 4);
    objects.apply(&network("vm-sriov", "10.92.0.0/24"));
    for (name, node) in [("reader-1", &nodes[0]), ("reader-2", &nodes[1]), ("stranger", &nodes[1])] {
        objects.apply(&holder(name, node, "vm-sriov"));
    }
    for name in ["reader-1", "reader-2", "stranger"] {
        objects.running(name, POD);
    }
    let (server, _) = ipv4(&interface("reader-1", "net1"));

    // Only its own device, whoever asks
    for name in ["reader-1", "reader-2"] {
        let own = device(name);
        let rdma = inside(name, "rdma dev").good();
        assert_eq!(rdma.lines().count(), 1, "{rdma}");
        assert!(rdma.contains(&own), "{rdma}");
        let verbs = inside(name, "ibv_devinfo 2>/dev/null").good();
        assert_eq!(verbs.matches("hca_id:").count(), 1, "{verbs}");
        assert!(verbs.contains(&own) && verbs.contains("PORT_ACTIVE"), "{verbs}");
        let links: Vec<String> =
            inside(name, "ip -d -br link | cut -d' ' -f1").good().lines().map(str::to_owned).collect();
        assert_eq!(links.len(), 3, "lo, eth0 and net1: {links:?}");
        assert!(inside(name, "ip -d link show dev net1").good().contains("link/infiniband"));
        let files = inside(name, "ls /dev/infiniband").good();
        assert_eq!(files.matches("uverbs").count(), 1, "{files}");
    }

    // One partition for the two, another for the third; the name of each partition is its place in the port's table
    let partition = |name: &str, pkey: &str, pods: &[&str]| {
        let members: Vec<String> = pods.iter().map(|pod| format!("{}=full", guid(pod))).collect();
        format!("{name}={pkey}, indx0, ipoib : {};", members.join(", "))
    };
    let lines = [
        "Default=0x7fff, ipoib : ALL=limited, SELF=full;".to_owned(),
        partition("readers", "0x1", &["reader-1", "reader-2"]),
        partition("strangers", "0x2", &["stranger"]),
    ];
    on(&nodes[0], &format!("fabric-partitions '{}'", lines.join("' '"))).good();
    for (name, key) in [("reader-1", "0x8001"), ("reader-2", "0x8001"), ("stranger", "0x8002")] {
        succeeds_in(name, 120, &format!("grep -qx {key} /sys/class/infiniband/*/ports/1/pkeys/0"));
    }

    succeeds_in("reader-2", 120, &format!("ping -q -c 2 -W 2 {server}"));
    let table = read_lat("reader-1", "reader-2", &server).expect("the readers read");
    say(&format!("ib_read_lat between pods on {} and {}:\n{table}", nodes[0], nodes[1]));

    let ping = inside("stranger", &format!("ping -q -c 3 -W 2 {server}"));
    assert!(!ping.ok, "the stranger reaches a reader by IPoIB: {}", ping.out);
    // The programs exchange their addresses over the default network, so only the fabric can be in their way.
    let (default, _) = ipv4(&interface("reader-1", "eth0"));
    let verbs = read_lat("reader-1", "stranger", &default);
    assert!(verbs.is_err(), "the stranger reads a reader's memory: {verbs:?}");
    let table = read_lat("reader-1", "reader-2", &default).expect("the readers read by that way, too");
    assert!(table.contains("t_typical"), "{table}");

    on(&nodes[0], "fabric-partitions").good();
    drop(objects);
    for node in &nodes {
        assert_eq!(complaints(node), "", "kernel of {node}");
        assert_eq!(on(node, "rdma dev | wc -l").good().trim(), "6", "RDMA devices of {node}");
    }
}
