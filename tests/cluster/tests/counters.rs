//! Metrics of a node as Prometheus would scrape them.

use ferroband_cluster_tests::hardware::Functions;
use ferroband_cluster_tests::{Objects, inside, nodes, on};
use std::io::Write;
use std::process::{Command, Stdio};

fn value(page: &str, metric: &str, device: &str) -> Option<u64> {
    let label = format!("ifname=\"{device}\"");
    let line = page.lines().find(|l| l.starts_with(&format!("{metric}{{")) && l.contains(&label))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

#[test]
#[ignore = "not yet seen to hold with everything else in place"]
fn a_device_in_a_pods_rdma_namespace_is_counted_for_the_pod() {
    let (mut objects, node) = (Objects::default(), nodes()[0].clone());
    let functions = Functions::make(&node, 1);
    objects.pod("apart", &node);
    objects.running("apart", 60);
    functions.sim("netns exclusive");
    functions.sim("count mlx5_1 out_of_sequence --by 5");
    // The namespace of the pod, as its runtime pins it.
    let own = inside("apart", "readlink /proc/self/ns/net").good();
    let inode = own.trim().trim_start_matches("net:[").trim_end_matches(']').to_owned();
    let find =
        format!("for f in /var/run/netns/*; do [ $(stat -L -c %i $f) = {inode} ] && echo $f; done; true");
    let pinned = on(&node, &find).good();
    functions.sim(&format!("move mlx5_1 {}", pinned.trim()));
    assert!(!on(&node, "ferroband inspect").good().contains("mlx5_1"), "it is out of the host's sight");
    let page = on(&node, "curl -sf http://127.0.0.1:5711/metrics").good();
    assert_eq!(value(&page, "rdma_out_of_sequence_total", "mlx5_1"), Some(5), "{page}");
    let line = page.lines().find(|l| l.starts_with("rdma_out_of_sequence_total") && l.contains("mlx5_1"));
    assert!(line.unwrap().contains("pod_namespace=\"default\",pod_name=\"apart\""), "{line:?}");
    promtool(&page);
}

/// Prometheus' own judgement of the page.
fn promtool(page: &str) {
    let program = std::env::var("FERROBAND_PROMTOOL").unwrap_or_else(|_| "promtool".to_owned());
    let mut child = Command::new(program)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool, which `cargo xtask test cluster` installs");
    child.stdin.take().expect("a pipe").write_all(page.as_bytes()).expect("promtool reads");
    let said = child.wait_with_output().expect("promtool ends");
    let words = format!("{}{}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    assert!(said.status.success() && words.trim().is_empty(), "{}: {words}", said.status);
}
