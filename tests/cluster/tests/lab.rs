//! The lab itself: a real cluster that recovers from failures.

use ferroband_cluster_tests::{
    TestObjects, eventually, exec_in_pod, exec_on, kubectl, kubectl_get, lab_cli, node_names, reboot_node,
    up_lab,
};
use std::process::Stdio;

#[test]
fn all_nodes_are_ready_and_run_a_daemonset() {
    let mut objects = TestObjects::default();
    objects.apply(
        "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: everywhere}, spec: {selector: {matchLabels: {a: e}}, \
         template: {metadata: {labels: {a: e}}, spec: {terminationGracePeriodSeconds: 0, \
         containers: [{name: c, image: \"busybox:1\"}]}}}}",
    );
    kubectl(&["rollout", "status", "ds/everywhere", "--timeout=60s"]).stdout_or_panic();
    let list = kubectl_get(&["pods", "-l", "a=e"]);
    let mut on: Vec<&str> =
        list["items"].as_array().unwrap().iter().filter_map(|p| p["spec"]["nodeName"].as_str()).collect();
    on.sort_unstable();
    assert_eq!(on, node_names());
    assert!(on.len() >= 2);
}

#[test]
fn pods_of_two_nodes_ping_each_other() {
    let (mut objects, nodes) = (TestObjects::default(), node_names());
    objects.apply_pod("ping-a", &nodes[0]).apply_pod("ping-b", &nodes[1]);
    objects.wait_ready("ping-a", 60);
    let there = objects.wait_ready("ping-b", 60);
    let address = there["status"]["podIP"].as_str().unwrap();
    exec_in_pod("ping-a", &format!("ping -c 2 -w 10 {address}")).stdout_or_panic();
}

#[test]
fn exec_logs_and_port_forward_work() {
    let (mut objects, nodes) = (TestObjects::default(), node_names());
    objects.apply(&format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: page}}, spec: {{nodeName: {}, terminationGracePeriodSeconds: 0, \
         containers: [{{name: c, image: \"busybox:1\", command: [sh, -c, \
         \"echo serving; echo pagetext > /www/index.html; exec httpd -f -p 8080 -h /www\"]}}]}}}}",
        nodes[1]
    ));
    objects.wait_ready("page", 60);
    assert_eq!(exec_in_pod("page", "cat /www/index.html").stdout_or_panic().trim(), "pagetext");
    assert_eq!(kubectl(&["logs", "page"]).stdout_or_panic().trim(), "serving");

    let forward = ["kubectl", "--", "port-forward", "pod/page", "18080:8080"];
    let mut forwarding = lab_cli(&forward).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let text = std::panic::catch_unwind(|| {
        eventually("the forwarded port", 20, || {
            let page = exec_on("control", "curl -s --max-time 2 http://127.0.0.1:18080/");
            if page.ok { Ok(page.out) } else { Err(page.err) }
        })
    });
    let _ = forwarding.kill();
    let _ = forwarding.wait();
    assert_eq!(text.unwrap().trim(), "pagetext");
}

#[test]
fn pod_reaches_the_api_server_at_its_cluster_ip() {
    let (mut objects, nodes) = (TestObjects::default(), node_names());
    objects.apply(&format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: caller}}, spec: {{nodeName: {}, terminationGracePeriodSeconds: 0, \
         containers: [{{name: c, image: \"ferroband.lab/tools:1\"}}]}}}}",
        nodes[0]
    ));
    objects.wait_ready("caller", 60);
    let cluster = kubectl_get(&["service", "kubernetes"])["spec"]["clusterIP"].as_str().unwrap().to_string();
    let script = format!(
        "exec 3<>/dev/tcp/{cluster}/443 && echo connected; grep -q BEGIN /var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
    );
    let output = kubectl(&["exec", "caller", "--", "bash", "-c", &script]).stdout_or_panic();
    assert_eq!(output.trim(), "connected");
}

#[test]
fn lab_up_restarts_a_killed_kubelet_and_api_server() {
    let node = node_names()[0].clone();
    exec_on(&node, "kill -9 $(cat /run/lab/kubelet.pid)").stdout_or_panic();
    exec_on("control", "kill -9 $(cat /run/lab/kube-apiserver.pid)").stdout_or_panic();
    assert!(!kubectl(&["get", "nodes", "--request-timeout=2s"]).ok, "the API server survived a kill -9");
    up_lab(&[]);
    assert!(lab_cli(&["status"]).output().expect("the lab program starts").status.success());
    assert!(exec_on(&node, "kill -0 $(cat /run/lab/kubelet.pid)").ok);
}

#[test]
fn pods_restart_after_a_node_reboot() {
    let (mut objects, node) = (TestObjects::default(), node_names()[1].clone());
    objects.apply_pod("survivor", &node);
    let before = objects.wait_ready("survivor", 60);
    exec_on(&node, "touch /run/volatile").stdout_or_panic();
    reboot_node(&node);
    assert!(!exec_on(&node, "test -e /run/volatile").ok, "/run survived the reboot");
    let after = eventually("the pod runs again", 90, || {
        let pod = kubectl_get(&["pod", "survivor"]);
        let restarts = pod["status"]["containerStatuses"][0]["restartCount"].as_i64().unwrap_or(0);
        let ready = pod["status"]["containerStatuses"][0]["ready"] == true;
        if restarts > 0 && ready { Ok(pod) } else { Err(pod["status"].to_string()) }
    });
    assert_eq!(before["metadata"]["uid"], after["metadata"]["uid"]);
    exec_in_pod("survivor", "true").stdout_or_panic();
}

#[test]
fn lab_is_isolated_from_the_host_network() {
    let addresses = std::process::Command::new("ip").args(["-j", "address"]).output().unwrap();
    let text = String::from_utf8(addresses.stdout).unwrap();
    assert!(!text.contains("10.77.0.") && !text.contains("10.78."), "{text}");
    for machine in ["control".to_string()].into_iter().chain(node_names()) {
        let routes = exec_on(&machine, "ip -4 route get 192.0.2.1 2>&1; true").stdout_or_panic();
        let leaves = routes.contains("dev eth0") && machine == "control";
        assert!(!leaves, "{machine} has a route out of the lab: {routes}");
    }
    assert!(!exec_on(&node_names()[0], "ping -c 1 -w 1 192.0.2.1").ok);
}

#[test]
fn api_server_calls_a_webhook_served_by_a_pod() {
    let (mut objects, nodes) = (TestObjects::default(), node_names());
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
    // Denies every request, with the uid of the request.
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
    objects.wait_ready("hook", 60);
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
            return Err("the API server does not call the webhook yet".to_string());
        }
        Ok(made.err)
    });
    assert!(refused.contains("the pod says no"), "{refused}");
}
