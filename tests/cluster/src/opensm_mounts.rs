//! What opensm needs in the node daemon's container. As an image with the package in it would, the container sees the node's
//! own programs and libraries.

use crate::kubectl;
use serde_json::{Value, json};
use std::thread;

/// The folders of the node; when dropped, the containers are as before.
pub struct OpensmMounts;

impl OpensmMounts {
    /// On all nodes, with these variables.
    #[track_caller]
    pub fn apply(env: &[Value]) -> Self {
        let folders = [
            ("lib", "/usr/lib"),
            ("lib64", "/usr/lib64"),
            ("usr-lib", "/usr/lib"),
            ("usr-sbin", "/usr/sbin"),
        ];
        let at = |name: &str| format!("/{}", name.replace('-', "/"));
        let volume = |(name, path): (&str, &str)| json!({"name": name, "hostPath": {"path": path}});
        let mount = |(name, _): (&str, &str)| json!({"name": name, "mountPath": at(name), "readOnly": true});
        let patch = json!({"spec": {
            "updateStrategy": {"rollingUpdate": {"maxUnavailable": "100%"}},
            "template": {"spec": {
                "volumes": folders.map(volume),
                "containers": [{"name": "node", "env": env, "volumeMounts": folders.map(mount)}],
            }},
        }});
        let patch = patch.to_string();
        kubectl(&["-n", "ferroband-system", "patch", "daemonset", "ferroband-node", "-p", &patch])
            .stdout_or_panic();
        wait_rollout();
        Self
    }
}

#[track_caller]
fn wait_rollout() {
    let status = ["rollout", "status", "daemonset", "ferroband-node", "--timeout=400s"];
    kubectl(&[&["-n", "ferroband-system"], &status[..]].concat()).stdout_or_panic();
}

impl Drop for OpensmMounts {
    fn drop(&mut self) {
        let undone = kubectl(&["-n", "ferroband-system", "rollout", "undo", "daemonset", "ferroband-node"]);
        if undone.ok && !thread::panicking() {
            wait_rollout();
        }
    }
}
