//! The two pods that `ferroband verify` creates.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Label key of the pods that `ferroband verify` creates; the value identifies the run.
pub const LABEL: &str = "ferroband.io/verify";
/// Number of ICMP echo requests that the second pod sends.
pub const PING_COUNT: u32 = 3;
/// Name that the interface of the first additional network has in a pod.
pub const INTERFACE: &str = "net1";

/// Parameters of the two pods that one run of `ferroband verify` creates.
#[derive(Clone, Debug)]
pub struct VerifyPods {
    /// Unique for each run; part of the pod names and the value of `LABEL`.
    pub id: String,
    pub namespace: String,
    /// Network to test, as `<namespace>/<name>`.
    pub network: String,
    pub image: String,
    /// Names and amounts of the resource limits of each pod.
    pub resources: Vec<(String, u32)>,
    /// Time limit for the start of the first pod, and for the ping of the second pod. The
    /// `activeDeadlineSeconds` of both pods is three times as long.
    pub step: Duration,
}

impl VerifyPods {
    /// Label selector for the pods of this run.
    pub fn selector(&self) -> String {
        format!("{LABEL}={}", self.id)
    }

    /// Name of the target pod (`a`) or of the ping pod (`b`).
    pub fn name(&self, which: char) -> String {
        format!("ferroband-verify-{}-{which}", self.id)
    }

    /// The pod that is pinged. It sleeps until it is deleted or its deadline passes.
    pub fn target_pod(&self, node: &str) -> serde_json::Result<Pod> {
        self.pod('a', node, &["sleep", &self.deadline_seconds().to_string()])
    }

    /// The pod that pings `address` from `INTERFACE`. It succeeds if there is a reply.
    pub fn ping_pod(&self, node: &str, address: &str) -> serde_json::Result<Pod> {
        let (echoes, limit) = (PING_COUNT.to_string(), (PING_COUNT * 10).to_string());
        self.pod('b', node, &["ping", "-c", &echoes, "-w", &limit, "-I", INTERFACE, address])
    }

    /// `activeDeadlineSeconds`: the kubelet ends the pods even if this program is killed.
    fn deadline_seconds(&self) -> u64 {
        self.step.as_secs() * 3
    }

    fn pod(&self, which: char, node: &str, command: &[&str]) -> serde_json::Result<Pod> {
        let limits: BTreeMap<_, _> = self
            .resources
            .iter()
            .map(|(name, count)| (name.clone(), Value::from(count.to_string())))
            .collect();
        serde_json::from_value(json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": self.name(which),
                "namespace": self.namespace,
                "labels": {LABEL: self.id},
                "annotations": {ferroband_api::annotation::NETWORKS: self.network},
            },
            "spec": {
                // Node affinity instead of nodeName, so that the scheduler accounts for the requested
                // resources.
                "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]},
                ]}}},
                "tolerations": [{"operator": "Exists"}],
                "restartPolicy": "Never",
                "activeDeadlineSeconds": self.deadline_seconds(),
                "terminationGracePeriodSeconds": 0,
                "automountServiceAccountToken": false,
                "containers": [{
                    "name": "verify", "image": self.image, "command": command,
                    "resources": {"limits": limits},
                }],
            },
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_requests_the_network_on_its_node_and_has_a_deadline() {
        let pods = VerifyPods {
            id: "7".into(),
            namespace: "default".into(),
            network: "default/ib".into(),
            image: "busybox".into(),
            resources: vec![("spidernet.io/ib".into(), 2)],
            step: Duration::from_secs(60),
        };
        let pod = serde_json::to_value(pods.ping_pod("n1", "192.168.0.1").unwrap()).unwrap();
        assert_eq!(pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"], "default/ib");
        assert_eq!(
            (&pod["metadata"]["name"], &pod["spec"]["activeDeadlineSeconds"]),
            (&json!("ferroband-verify-7-b"), &json!(180))
        );
        let container = &pod["spec"]["containers"][0];
        assert_eq!(container["command"], json!(["ping", "-c", "3", "-w", "30", "-I", "net1", "192.168.0.1"]));
        assert_eq!(container["resources"]["limits"]["spidernet.io/ib"], "2");
        assert!(pod["spec"]["nodeName"].is_null());
    }
}
