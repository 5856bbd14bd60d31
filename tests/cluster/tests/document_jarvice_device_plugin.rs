//! Document 002: the JARVICE device plugin, its two pods and its mocked run.
//!
//! The document refers to manifests without printing them; the test uses `examples/rdma-device`.

use ferroband_cluster_tests::hardware::{allocatable, wait_allocatable};
use ferroband_cluster_tests::{TestObjects, eventually, exec_in_pod, exec_on, node_names, note_vmlab_only};
use std::fs;
use std::path::Path;

fn example(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/rdma-device").join(file);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn both_pods_get_the_devices_of_their_nodes() {
    let mut objects = TestObjects::default();
    for node in node_names() {
        wait_allocatable(&node, "jarvice.com/rdma", "1");
    }
    objects.apply(&example("pods.yaml"));
    let (first, second) = (objects.wait_ready("ibpod", 90), objects.wait_ready("ibpod2", 90));
    assert_ne!(first["spec"]["nodeName"], second["spec"]["nodeName"], "one unit on each node");
    for pod in ["ibpod", "ibpod2"] {
        // "The known required devices for RDMA", and "optionally".
        for file in ["uverbs0", "rdma_cm"] {
            exec_in_pod(pod, &format!("test -c /dev/infiniband/{file} && exec 3<>/dev/infiniband/{file}"))
                .stdout_or_panic();
        }
        let files = exec_in_pod(pod, "ls /dev/infiniband").stdout_or_panic();
        assert!(!files.contains("umad") && !files.contains("issm"), "{files}");
    }
    // "Find the IP for the first pod", "ib_read_bw … 10.40.0.27".
    let address = first["status"]["podIP"].as_str().expect("an address");
    exec_in_pod("ibpod2", &format!("ping -c 1 -w 10 {address}")).stdout_or_panic();
    note_vmlab_only("002: ib_read_bw between the two pods");
}

/// The document's `docker run --security-opt=no-new-privileges --cap-drop=ALL --network=none -v …` with `ctr`.
/// By default a container gets a network namespace without interfaces, and no new privileges.
fn mocked_run_command(name: &str, plugins: &str, resource: &str) -> String {
    let bind = |from: &str, to: &str| format!("--mount type=bind,src={from},dst={to},options=rbind:rw");
    let dropped: String = CAPABILITIES.iter().map(|name| format!(" --cap-drop CAP_{name}")).collect();
    format!(
        "ctr -n k8s.io run --detach --null-io{dropped} {} {} docker.io/library/ferroband:dev {name} \
         /usr/bin/ferroband device-plugin --rdma-resource {resource}",
        bind(plugins, "/var/lib/kubelet/device-plugins"),
        bind("/tmp/infiniband", "/dev/infiniband"),
    )
}

/// containerd's default capabilities.
const CAPABILITIES: [&str; 14] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FSETID",
    "FOWNER",
    "MKNOD",
    "NET_RAW",
    "SETGID",
    "SETUID",
    "SETFCAP",
    "SETPCAP",
    "NET_BIND_SERVICE",
    "SYS_CHROOT",
    "KILL",
    "AUDIT_WRITE",
];

/// A container on a node, removed on drop.
struct DetachedContainer<'a>(&'a str, &'a str);

impl Drop for DetachedContainer<'_> {
    fn drop(&mut self) {
        let Self(node, name) = self;
        let end = format!(
            "ctr -n k8s.io task kill -s SIGKILL {name}; sleep 0.5; ctr -n k8s.io task delete {name}; \
             ctr -n k8s.io container delete {name}; rm -rf /tmp/infiniband /tmp/device-plugins; true"
        );
        exec_on(node, &end);
    }
}

#[test]
fn mocked_run_without_capabilities_registers_with_a_real_kubelet() {
    let node = node_names()[1].clone();
    let resource = "mocked.example.com/rdma";
    // "create mocked … directories, touch a /tmp/infiniband/uverbs0 file"
    exec_on(&node, "mkdir -p /tmp/device-plugins /tmp/infiniband && touch /tmp/infiniband/uverbs0")
        .stdout_or_panic();
    {
        let _container = DetachedContainer(&node, "mocked-alone");
        exec_on(&node, &mocked_run_command("mocked-alone", "/tmp/device-plugins", resource))
            .stdout_or_panic();
        // There is no kubelet to register with; the plugin waits and does not exit.
        let there = "test -S /tmp/device-plugins/ferroband-mocked.example.com-rdma.sock";
        eventually("the socket in the mocked folder", 30, || match exec_on(&node, there) {
            output if output.ok => Ok(()),
            output => Err(output.err),
        });
        let tasks = exec_on(&node, "ctr -n k8s.io task list | grep mocked-alone").stdout_or_panic();
        assert!(tasks.contains("RUNNING"), "{tasks}");
        let pid = tasks.split_whitespace().nth(1).expect("a process").to_owned();
        let status = exec_on(&node, &format!("cat /proc/{pid}/status")).stdout_or_panic();
        for line in ["CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1"] {
            assert!(status.contains(line), "{line} is not in\n{status}");
        }
        let interfaces =
            exec_on(&node, &format!("nsenter -t {pid} -n ip -br link | grep -v ^lo; true")).stdout_or_panic();
        assert_eq!(interfaces.trim(), "", "no network");
    }
    exec_on(&node, "mkdir -p /tmp/infiniband && touch /tmp/infiniband/uverbs0").stdout_or_panic();
    {
        let _container = DetachedContainer(&node, "mocked-real");
        exec_on(&node, &mocked_run_command("mocked-real", "/var/lib/kubelet/device-plugins", resource))
            .stdout_or_panic();
        wait_allocatable(&node, resource, "1");
        exec_on(&node, "rm /tmp/infiniband/uverbs0").stdout_or_panic();
        wait_allocatable(&node, resource, "0");
        exec_on(&node, "touch /tmp/infiniband/uverbs0").stdout_or_panic();
        wait_allocatable(&node, resource, "1");
        assert_eq!(allocatable(&node, "jarvice.com/rdma"), "1", "the daemon's resource stays");
    }
    // The plugin is gone; a kubelet keeps the resource name until it restarts.
    wait_allocatable(&node, resource, "0");
}
