//! Objects of one test: applied, waited for, and gone again when the test ends, well or not.

use crate::{eventually, kubectl, kubectl_with};
use serde_json::{Value, json};

/// What a test has applied.
#[derive(Default, Debug)]
pub struct TestObjects(Vec<String>);

impl TestObjects {
    /// Apply a manifest; it is deleted when this value is dropped.
    #[track_caller]
    pub fn apply(&mut self, yaml: &str) -> &mut Self {
        self.track(yaml);
        kubectl_with(&["apply", "-f", "-"], yaml).stdout_or_panic();
        self
    }

    /// Delete this as well, which was made in another way.
    pub fn track(&mut self, yaml: &str) -> &mut Self {
        self.0.push(yaml.to_string());
        self
    }

    /// The last test in a lab of its own need not delete them: they go with the lab.
    pub fn leave_to_lab_teardown(mut self) {
        if std::env::var_os("FERROBAND_OWN_LAB").is_none() {
            self.0.clear();
        }
    }

    /// A busybox pod that sleeps, on a node.
    #[track_caller]
    pub fn apply_pod(&mut self, name: &str, node: &str) -> &mut Self {
        self.apply(&format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{nodeName: {node}, \
             terminationGracePeriodSeconds: 0, containers: [{{name: c, image: \"busybox:1\"}}]}}}}"
        ))
    }

    /// Wait for a pod to run and give it back.
    #[track_caller]
    pub fn wait_ready(&self, pod: &str, seconds: u64) -> Value {
        wait_pod_ready(pod, seconds)
    }
}

/// A network as Multus has them, of one plugin or of a chain.
pub fn network_definition(name: &str, config: &Value) -> Value {
    json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": name}, "spec": {"config": config.to_string()},
    })
}

/// Wait for a network that somebody else makes, and give it back.
#[track_caller]
pub fn wait_network_definition(namespace: &str, name: &str, seconds: u64) -> Value {
    eventually(&format!("network {namespace}/{name}"), seconds, || {
        let seen = kubectl(&["get", "net-attach-def", "-n", namespace, name, "-o", "json"]);
        serde_json::from_str(&seen.out).map_err(|_| seen.err)
    })
}

/// A pod with tools and these annotations, on a node.
pub fn pod_with_annotations(name: &str, node: &str, annotations: &Value) -> String {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "nodeName": node, "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "ferroband.lab/tools:1"}],
        },
    })
    .to_string()
}

/// One that asks for networks.
pub fn pod_with_networks(name: &str, node: &str, networks: &str) -> String {
    pod_with_annotations(name, node, &json!({"k8s.v1.cni.cncf.io/networks": networks}))
}

/// Wait for a pod to be Ready and give it back.
#[track_caller]
pub fn wait_pod_ready(pod: &str, seconds: u64) -> Value {
    eventually(&format!("pod {pod} Ready"), seconds, || {
        let seen = kubectl(&["get", "pod", pod, "-o", "json"]);
        let pod: Value = serde_json::from_str(&seen.out).map_err(|_| seen.err)?;
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let ready = conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True");
        if ready { Ok(pod) } else { Err(format!("{}", pod["status"])) }
    })
}

/// Wait until every node runs one Ready pod with this label, and give them back in the order of their nodes.
#[track_caller]
pub fn wait_pods_ready(label: &str, pods: usize, seconds: u64) -> Vec<Value> {
    eventually(&format!("{pods} pods {label} Ready"), seconds, || {
        let seen = kubectl(&["get", "pods", "-l", label, "-o", "json"]);
        let list: Value = serde_json::from_str(&seen.out).map_err(|_| seen.err)?;
        let mut found = list["items"].as_array().cloned().unwrap_or_default();
        let ready = |pod: &Value| {
            let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True")
        };
        if found.len() == pods && found.iter().all(ready) {
            found.sort_by_key(|pod| pod["spec"]["nodeName"].to_string());
            return Ok(found);
        }
        let names = found.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap_or_default());
        let told = kubectl(&["get", "events", "--field-selector", "type=Warning"]).out;
        Err(format!("{:?}\n{told}", names.collect::<Vec<_>>()))
    })
}

impl Drop for TestObjects {
    fn drop(&mut self) {
        while let Some(yaml) = self.0.pop() {
            let gone = kubectl_with(
                &["delete", "--ignore-not-found", "--wait", "--grace-period=1", "--timeout=60s", "-f", "-"],
                &yaml,
            );
            if !gone.ok {
                eprintln!("not deleted: {}", gone.err);
            }
        }
    }
}
