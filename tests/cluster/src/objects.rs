//! Kubernetes objects of one test, deleted when the test ends, also after a failure.

use crate::{eventually, kubectl_with, try_get};
use serde_json::{Value, json};

/// Manifests that a test has applied. Drop deletes them in reverse order.
#[derive(Default, Debug)]
pub struct TestObjects(Vec<String>);

impl TestObjects {
    /// Applies a manifest and deletes it on drop.
    #[track_caller]
    pub fn apply(&mut self, yaml: &str) -> &mut Self {
        self.track(yaml);
        kubectl_with(&["apply", "-f", "-"], yaml).stdout_or_panic();
        self
    }

    /// Deletes this manifest on drop; it was created in another way.
    pub fn track(&mut self, yaml: &str) -> &mut Self {
        self.0.push(yaml.to_string());
        self
    }

    /// Skips deletion: the last test in its own lab leaves its objects to the lab's teardown.
    pub fn leave_to_lab_teardown(mut self) {
        if std::env::var_os("FERROBAND_OWN_LAB").is_none() {
            self.0.clear();
        }
    }

    /// Applies a sleeping busybox pod on a node.
    #[track_caller]
    pub fn apply_pod(&mut self, name: &str, node: &str) -> &mut Self {
        self.apply(&format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{nodeName: {node}, \
             terminationGracePeriodSeconds: 0, containers: [{{name: c, image: \"busybox:1\"}}]}}}}"
        ))
    }

    /// Waits until a pod is Ready and returns it.
    #[track_caller]
    pub fn wait_ready(&self, pod: &str, seconds: u64) -> Value {
        wait_pod_ready(pod, seconds)
    }
}

/// A NetworkAttachmentDefinition with this plugin configuration or list.
pub fn network_definition(name: &str, config: &Value) -> Value {
    json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": name}, "spec": {"config": config.to_string()},
    })
}

/// Waits for a NetworkAttachmentDefinition that the cluster daemon creates, and returns it.
#[track_caller]
pub fn wait_network_definition(namespace: &str, name: &str, seconds: u64) -> Value {
    eventually(&format!("network {namespace}/{name}"), seconds, || {
        try_get(&["net-attach-def", "-n", namespace, name])
    })
}

/// A pod with the tools image and these annotations, on a node.
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

/// A pod with this `networks` annotation.
pub fn pod_with_networks(name: &str, node: &str, networks: &str) -> String {
    pod_with_annotations(name, node, &json!({"k8s.v1.cni.cncf.io/networks": networks}))
}

/// Waits until a pod is Ready and returns it.
#[track_caller]
pub fn wait_pod_ready(pod: &str, seconds: u64) -> Value {
    eventually(&format!("pod {pod} Ready"), seconds, || {
        let pod = try_get(&["pod", pod])?;
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let ready = conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True");
        if ready { Ok(pod) } else { Err(format!("{}\n{}", pod["status"], warning_messages(&pod))) }
    })
}

/// Messages of the pod's warning events, one line each.
fn warning_messages(pod: &Value) -> String {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let selector = format!("involvedObject.name={name},type=Warning");
    let events = try_get(&["events", "--field-selector", &selector]).unwrap_or_default();
    events["items"].as_array().into_iter().flatten().map(|event| format!("{}\n", event["message"])).collect()
}

/// Waits until this number of pods with the label are Ready; returns them in the order of their nodes.
#[track_caller]
pub fn wait_pods_ready(label: &str, pods: usize, seconds: u64) -> Vec<Value> {
    eventually(&format!("{pods} pods {label} Ready"), seconds, || {
        let list = try_get(&["pods", "-l", label])?;
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
        let messages: String = found.iter().map(warning_messages).collect();
        Err(format!("{:?}\n{messages}", names.collect::<Vec<_>>()))
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
                eprintln!("cannot delete: {}", gone.err);
            }
        }
    }
}
