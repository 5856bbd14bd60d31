//! The lab itself: it is a real cluster, it heals, and it goes without a trace.

use ferroband_cluster_tests::{Objects, eventually, get, inside, kubectl, lab, lab_command, nodes, on};
use std::process::Stdio;

#[test]
fn all_nodes_are_ready_and_a_daemonset_lands_on_each() {
    let mut objects = Objects::default();
    objects.apply(
        "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: everywhere}, spec: {selector: {matchLabels: {a: e}}, \
         template: {metadata: {labels: {a: e}}, spec: {terminationGracePeriodSeconds: 0, \
         containers: [{name: c, image: \"busybox:1\"}]}}}}",
    );
    kubectl(&["rollout", "status", "ds/everywhere", "--timeout=60s"]).good();
    let list = get(&["pods", "-l", "a=e"]);
    let mut on: Vec<&str> =
        list["items"].as_array().unwrap().iter().filter_map(|p| p["spec"]["nodeName"].as_str()).collect();
    on.sort_unstable();
    assert_eq!(on, nodes());
    assert!(on.len() >= 2);
}

#[test]
fn pods_of_two_nodes_ping_each_other() {
    let (mut objects, nodes) = (Objects::default(), nodes());
    objects.pod("ping-a", &nodes[0]).pod("ping-b", &nodes[1]);
    objects.running("ping-a", 60);
    let there = objects.running("ping-b", 60);
    let address = there["status"]["podIP"].as_str().unwrap();
    inside("ping-a", &format!("ping -c 2 -w 10 {address}")).good();
}

#[test]
fn exec_logs_and_port_forward_work() {
    let (mut objects, nodes) = (Objects::default(), nodes());
    objects.apply(&format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: page}}, spec: {{nodeName: {}, terminationGracePeriodSeconds: 0, \
         containers: [{{name: c, image: \"busybox:1\", command: [sh, -c, \
         \"echo serving; echo pagetext > /www/index.html; exec httpd -f -p 8080 -h /www\"]}}]}}}}",
        nodes[1]
    ));
    objects.running("page", 60);
    assert_eq!(inside("page", "cat /www/index.html").good().trim(), "pagetext");
    assert_eq!(kubectl(&["logs", "page"]).good().trim(), "serving");

    let forward = ["kubectl", "--", "port-forward", "pod/page", "18080:8080"];
    let mut forwarding = lab_command(&forward).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let text = std::panic::catch_unwind(|| {
        eventually("the forwarded port", 20, || {
            let page = on("control", "curl -s --max-time 2 http://127.0.0.1:18080/");
            if page.ok { Ok(page.out) } else { Err(page.err) }
        })
    });
    let _ = forwarding.kill();
    let _ = forwarding.wait();
    assert_eq!(text.unwrap().trim(), "pagetext");
}

#[test]
fn a_pod_calls_the_api_server_by_its_cluster_address() {
    let (mut objects, nodes) = (Objects::default(), nodes());
    objects.apply(&format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: caller}}, spec: {{nodeName: {}, terminationGracePeriodSeconds: 0, \
         containers: [{{name: c, image: \"ferroband.lab/tools:1\"}}]}}}}",
        nodes[0]
    ));
    objects.running("caller", 60);
    let cluster = get(&["service", "kubernetes"])["spec"]["clusterIP"].as_str().unwrap().to_string();
    let script = format!(
        "exec 3<>/dev/tcp/{cluster}/443 && echo connected; grep -q BEGIN /var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
    );
    let said = kubectl(&["exec", "caller", "--", "bash", "-c", &script]).good();
    assert_eq!(said.trim(), "connected");
}

#[test]
fn a_killed_kubelet_and_a_killed_api_server_are_healed_by_up() {
    let node = nodes()[0].clone();
    on(&node, "kill -9 $(cat /run/lab/kubelet.pid)").good();
    on("control", "kill -9 $(cat /run/lab/kube-apiserver.pid)").good();
    assert!(!kubectl(&["get", "nodes", "--request-timeout=2s"]).ok, "the API server survived a kill -9");
    lab(&["up"]).good();
    lab(&["status"]).good();
    assert!(on(&node, "kill -0 $(cat /run/lab/kubelet.pid)").ok);
}

#[test]
fn a_rebooted_node_brings_its_pods_back() {
    let (mut objects, node) = (Objects::default(), nodes()[1].clone());
    objects.pod("survivor", &node);
    let before = objects.running("survivor", 60);
    on(&node, "touch /run/volatile").good();
    lab(&["reboot", &node]).good();
    assert!(!on(&node, "test -e /run/volatile").ok, "/run outlived the reboot");
    let after = eventually("the pod runs again", 90, || {
        let pod = get(&["pod", "survivor"]);
        let restarts = pod["status"]["containerStatuses"][0]["restartCount"].as_i64().unwrap_or(0);
        let ready = pod["status"]["containerStatuses"][0]["ready"] == true;
        if restarts > 0 && ready { Ok(pod) } else { Err(pod["status"].to_string()) }
    });
    assert_eq!(before["metadata"]["uid"], after["metadata"]["uid"]);
    inside("survivor", "true").good();
}

#[test]
fn nothing_of_the_lab_is_on_the_machines_own_network() {
    let addresses = std::process::Command::new("ip").args(["-j", "address"]).output().unwrap();
    let text = String::from_utf8(addresses.stdout).unwrap();
    assert!(!text.contains("10.77.0.") && !text.contains("10.78."), "{text}");
    for machine in ["control".to_string()].into_iter().chain(nodes()) {
        let routes = on(&machine, "ip -4 route get 192.0.2.1 2>&1; true").good();
        let leaves = routes.contains("dev eth0") && machine == "control";
        assert!(!leaves, "{machine} has a way out: {routes}");
    }
    assert!(!on(&nodes()[0], "ping -c 1 -w 1 192.0.2.1").ok);
}

#[test]
fn a_webhook_served_by_a_pod_answers_the_api_server() {
    let (mut objects, nodes) = (Objects::default(), nodes());
    let pair = std::process::Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ])
        .args([
            "-subj",
            "/CN=hook",
            "-addext",
            "subjectAltName=DNS:hook.default.svc",
            "-keyout",
            "-",
            "-out",
            "-",
        ])
        .output()
        .unwrap();
    let pair = String::from_utf8(pair.stdout).unwrap();
    // Says no to every request, with the uid it was asked with.
    let answer = r#"while IFS= read -r l; do l=${l%$'\r'}; [ -z "$l" ] && break
      case "$l" in [Cc]ontent-[Ll]ength:*) n=${l#*: };; esac; done
      body=$(head -c "$n"); uid=$(printf %s "$body" | sed -n 's/.*"request":{"uid":"\([^"]*\)".*/\1/p')
      out="{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"response\":{\"uid\":\"$uid\",\"allowed\":false,\"status\":{\"message\":\"the pod says no\"}}}"
      printf 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s' ${#out} "$out""#;
    let files = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hook"},
        "data": {"pair.pem": pair, "answer": answer},
    });
    let pod = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "hook", "labels": {"app": "hook"}},
        "spec": {
            "nodeName": nodes[1], "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "c", "image": "ferroband.lab/tools:1",
                "command": ["socat", "OPENSSL-LISTEN:8443,reuseaddr,fork,cert=/hook/pair.pem,verify=0", "EXEC:bash /hook/answer"],
                "volumeMounts": [{"name": "hook", "mountPath": "/hook"}],
            }],
            "volumes": [{"name": "hook", "configMap": {"name": "hook"}}],
        },
    });
    let service = serde_json::json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook"},
        "spec": {"selector": {"app": "hook"}, "ports": [{"port": 443, "targetPort": 8443}]},
    });
    objects.apply(&files.to_string()).apply(&pod.to_string()).apply(&service.to_string());
    objects.running("hook", 60);
    let certificate =
        std::process::Command::new("base64").arg("-w0").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut encoder = certificate.unwrap();
    std::io::Write::write_all(encoder.stdin.as_mut().unwrap(), pair.as_bytes()).unwrap();
    let encoded = String::from_utf8(encoder.wait_with_output().unwrap().stdout).unwrap();
    objects.apply(
        &serde_json::json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "hook"},
            "webhooks": [{
                "name": "hook.ferroband.lab", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "clientConfig": {"service": {"name": "hook", "namespace": "default"}, "caBundle": encoded},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
                "matchConditions": [{"name": "mine", "expression": "object.metadata.name == 'refused'"}],
            }],
        })
        .to_string(),
    );
    let refused = eventually("the webhook's answer", 30, || {
        let made = kubectl(&["create", "configmap", "refused"]);
        if made.ok {
            kubectl(&["delete", "configmap", "refused"]);
            return Err("the API server does not ask it yet".to_string());
        }
        Ok(made.err)
    });
    assert!(refused.contains("the pod says no"), "{refused}");
}
