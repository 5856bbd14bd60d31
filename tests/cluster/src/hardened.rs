//! Daemons with the settings of the hardening guide, for tests in a lab that other tests use as well.

use crate::{kubectl, kubectl_get};
use serde_json::{Value, json};
use std::thread;

const NAMESPACE: &str = "ferroband-system";
/// The workloads, and the name of the container in each.
const WORKLOADS: [(&str, &str); 2] =
    [("daemonset/ferroband-node", "node"), ("deployment/ferroband-cluster", "cluster")];

/// The daemons run with other arguments until this value is dropped, also if the test fails.
pub struct HardenedDaemons;

impl HardenedDaemons {
    /// Restarts the daemons with these arguments. An argument replaces one of the same name.
    #[track_caller]
    pub fn restart(node_arguments: &[&str], cluster_arguments: &[&str]) -> Self {
        for ((workload, container), arguments) in
            WORKLOADS.into_iter().zip([node_arguments, cluster_arguments])
        {
            let args = merged_arguments(workload, arguments);
            let mut patch =
                json!({"spec": {"template": {"spec": {"containers": [{"name": container, "args": args}]}}}});
            if container == "node" {
                patch["spec"]["updateStrategy"] = json!({"rollingUpdate": {"maxUnavailable": "100%"}});
            }
            kubectl(&["-n", NAMESPACE, "patch", workload, "-p", &patch.to_string()]).stdout_or_panic();
        }
        // Created before the rollout ends, so that a failed rollout is undone as well.
        let restarted = Self;
        WORKLOADS.iter().for_each(|(workload, _)| wait_rollout(workload));
        restarted
    }
}

/// Returns the arguments of a workload, with those that `arguments` has as well replaced.
#[track_caller]
fn merged_arguments(workload: &str, arguments: &[&str]) -> Vec<Value> {
    let (kind, name) = workload.split_once('/').expect("kind and name");
    let object = kubectl_get(&["-n", NAMESPACE, kind, name]);
    let before = object["spec"]["template"]["spec"]["containers"][0]["args"].as_array().cloned();
    let flag = |argument: &str| argument.split('=').next().unwrap_or_default().to_owned();
    let is_replaced = |old: &Value| {
        let old = flag(old.as_str().unwrap_or_default());
        arguments.iter().any(|argument| flag(argument) == old)
    };
    let kept = before.unwrap_or_default().into_iter().filter(|old| !is_replaced(old));
    kept.chain(arguments.iter().map(|argument| json!(argument))).collect()
}

#[track_caller]
fn wait_rollout(workload: &str) {
    kubectl(&["-n", NAMESPACE, "rollout", "status", workload, "--timeout=300s"]).stdout_or_panic();
}

impl Drop for HardenedDaemons {
    fn drop(&mut self) {
        for (workload, _) in WORKLOADS {
            let undone = kubectl(&["-n", NAMESPACE, "rollout", "undo", workload]);
            if !undone.ok {
                eprintln!("cannot restore {workload}: {}", undone.err);
            } else if !thread::panicking() {
                wait_rollout(workload);
            }
        }
    }
}
