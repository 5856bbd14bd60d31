//! Mounts the node's programs and libraries into the node daemon's container, so that it can run opensm as an image
//! with the opensm package would.

use crate::kubectl;
use serde_json::{Value, json};
use std::thread;

/// Patched node DaemonSet. Drop rolls it back.
pub struct OpensmMounts;

impl OpensmMounts {
    /// Patches the DaemonSet with the mounts and these environment variables.
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
