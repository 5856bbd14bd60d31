//! Attacks on the webhook's Service, which every pod and every process on a node can reach.

use crate::fixture::HostileFixture;
use ferroband_cluster_tests::{eventually, exec_on, for_each_daemon, kubectl_get, kubectl_with, node_names};
use serde_json::{Value, json};

/// Memory budget of the cluster daemon in KiB.
const MAX_RSS_KIB: u64 = 500 << 10;

fn service() -> String {
    let service = kubectl_get(&["-n", "ferroband-system", "service", "ferroband-webhook"]);
    service["spec"]["clusterIP"].as_str().expect("a cluster IP").to_owned()
}

/// Names and restarts of the daemons.
pub fn daemons() -> Vec<(String, Value)> {
    let pods = kubectl_get(&["-n", "ferroband-system", "pods", "-l", "app.kubernetes.io/name=ferroband"]);
    let pods = pods["items"].as_array().cloned().unwrap_or_default();
    let row = |pod: &Value| {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        (name, pod["status"]["containerStatuses"][0]["restartCount"].clone())
    };
    pods.iter().map(row).collect()
}

/// Sends the output of a shell command to the webhook from a node; returns the HTTP status.
fn post(node: &str, path: &str, body: &str) -> String {
    let url = format!("https://{}/{path}", service());
    let script = format!(
        "{body} | curl -sk -m 20 -o /dev/null -w '%{{http_code}}' -H 'Content-Type: application/json' \
         -H 'Expect:' --data-binary @- {url}"
    );
    exec_on(node, &script).out
}

/// Whether a pod that names an unknown network gets the webhook's warning: the API server reaches the webhook.
fn webhook_answers() -> Result<(), String> {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "probe", "annotations": {"k8s.v1.cni.cncf.io/networks": "not-there"}},
        "spec": {"containers": [{"name": "c", "image": "busybox:1"}]},
    });
    let answer = kubectl_with(&["create", "--dry-run=server", "-o", "name", "-f", "-"], &pod.to_string());
    if answer.err.contains("default/not-there does not exist") { Ok(()) } else { Err(format!("{answer:?}")) }
}

pub fn u_requests_of_any_shape_do_not_end_a_daemon(hostile: &mut HostileFixture) {
    let (before, node) = (daemons(), hostile.nodes[1].clone());
    let review = |object: &str| {
        format!(
            "echo '{{\"request\":{{\"uid\":\"u\",\"kind\":{{\"kind\":\"Pod\"}},\"namespace\":\"d\",\"object\":{object}}}}}'"
        )
    };
    let limits = r#"{"spec":{"containers":[{"name":"a","resources":{"limits":"x"}}]},"metadata":{"annotations":{"k8s.v1.cni.cncf.io/networks":"a"}}}"#;
    for (path, body, status) in [
        ("pods", review(limits), "200"),
        ("pods", review("5"), "200"),
        ("pools", review("[[[]]]"), "200"),
        ("networks", review("{\"spec\":{\"cniType\":5}}"), "200"),
        ("pods", "echo".to_owned(), "400"),
        ("pods", "head -c 1000000 /dev/zero | tr '\\0' '['".to_owned(), "400"),
        ("pods", "head -c 100000 /dev/urandom".to_owned(), "400"),
        ("nothing", review("{}"), "404"),
    ] {
        assert_eq!(post(&node, path, &body), status, "{path}: {body}");
    }
    // The server may close the connection before the client has read the answer.
    let too_large = post(&node, "pods", "head -c 9000000 /dev/zero | tr '\\0' ' '");
    assert!(["400", "000"].contains(&too_large.as_str()), "{too_large}");
    eventually("the webhook answers", 10, webhook_answers);
    assert_eq!(daemons(), before, "no daemon was restarted");
    hostile.assert_victim_unchanged();
}

pub fn u_silent_connections_do_not_stop_the_webhook(hostile: &mut HostileFixture) {
    let before = daemons();
    let flood = format!(
        "bash -c 'for i in $(seq 400); do exec {{fd}}<>/dev/tcp/{}/443; done; sleep 15' >/dev/null 2>&1 &",
        service()
    );
    exec_on(&hostile.nodes[1], &flood).stdout_or_panic();
    // The connections are open when the first answer arrives, or soon afterwards.
    for _ in 0..5 {
        eventually("the webhook answers during the flood", 10, webhook_answers);
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
    assert_eq!(daemons(), before, "no daemon was restarted");
    hostile.assert_victim_unchanged();
}

/// The largest resident memory of the cluster daemons, in KiB.
fn largest_rss() -> u64 {
    let of_node = |node: &String| for_each_daemon(node, "cluster", "grep VmRSS $p/status");
    let texts: Vec<String> = node_names().iter().map(of_node).collect();
    let lines = texts.iter().flat_map(|text| text.lines());
    let kib = lines.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.max().expect("a cluster daemon")
}

/// Bodies that take much more memory when they are decoded.
pub fn u_large_requests_do_not_exceed_the_memory_budget(hostile: &mut HostileFixture) {
    let before = daemons();
    let url = format!("https://{}/pods", service());
    let script = format!(
        "f=$(mktemp); {{ printf '{{\"request\":{{\"uid\":\"u\",\"kind\":{{\"kind\":\"Pod\"}},\"object\":[0'; \
         yes ,[] | head -n 2000000 | tr -d '\\n'; printf ']}}}}'; }} > $f; \
         for i in $(seq 30); do curl -sk -m 30 -o /dev/null -H 'Expect:' --data-binary @$f {url} & done; wait; rm -f $f"
    );
    let node = hostile.nodes[1].clone();
    let flood = std::thread::spawn(move || exec_on(&node, &script));
    let mut largest = 0;
    while !flood.is_finished() {
        largest = largest.max(largest_rss());
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    assert!(flood.join().expect("the flood ends").ok);
    assert!(largest < MAX_RSS_KIB, "{largest} KiB");
    eventually("the webhook answers", 10, webhook_answers);
    assert_eq!(daemons(), before, "no daemon was restarted");
    hostile.assert_victim_unchanged();
}

/// The attacker keeps all connections for scrapes open.
pub fn u_silent_scrapes_do_not_stop_the_node_daemon(hostile: &mut HostileFixture) {
    let (before, node) = (daemons(), hostile.nodes[1].clone());
    let flood = "bash -c 'for i in $(seq 50); do exec {fd}<>/dev/tcp/127.0.0.1/5711; done; sleep 5' >/dev/null 2>&1 &";
    exec_on(&node, flood).stdout_or_panic();
    eventually("metrics are served again", 60, || {
        let page = exec_on(&node, "curl -sf -m 15 http://127.0.0.1:5711/metrics");
        if page.out.contains("ferroband_") { Ok(()) } else { Err(page.err) }
    });
    assert_eq!(daemons(), before, "no daemon was restarted");
    hostile.assert_victim_unchanged();
}

pub fn u_process_without_privileges_cannot_use_the_socket_or_read_the_state(hostile: &mut HostileFixture) {
    let node = hostile.nodes[0].clone();
    let as_nobody = |command: &str| {
        exec_on(&node, &format!("setpriv --reuid=65534 --regid=65534 --clear-groups sh -c '{command}' 2>&1"))
    };
    assert_eq!(as_nobody("id -u").stdout_or_panic().trim(), "65534");
    for command in [
        "ls /run/ferroband",
        "ls /var/lib/ferroband/journal",
        "curl -s -m 5 --unix-socket /run/ferroband/cni.sock http://x/",
    ] {
        let tried = as_nobody(command);
        assert!(!tried.ok, "{command}: {}", tried.out);
    }
    hostile.assert_victim_unchanged();
}
