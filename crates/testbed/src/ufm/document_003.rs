//! The UFM of document 003 (docs/walkthroughs/ai-cluster.md), and the Kubernetes objects that configure a
//! cluster for it.

use super::{TlsIdentity, UfmSimulator, UfmSimulatorOptions, VersionQuirks};
use anyhow::Result;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::PathBuf;

impl UfmSimulatorOptions {
    /// Options for the UFM of document 003, which listens in the network namespace at path `netns`.
    pub fn from_document(listen: SocketAddr, netns: PathBuf) -> Result<Self> {
        Ok(Self {
            listen,
            netns: Some(netns),
            // The openssl command of document 003 does not expand the variable, so this is the literal common
            // name.
            identity: Some(TlsIdentity::with_common_name("${UFM_ADDRESS}")?),
            quirks: VersionQuirks {
                credentials: ("admin".into(), "12345".into()),
                ..VersionQuirks::default()
            },
            ..Self::default()
        })
    }
}

impl UfmSimulator {
    /// The Secret of document 003 and the ConfigMap of ib-kubernetes, as one Kubernetes List.
    pub fn kubernetes_objects(&self) -> Value {
        let env = self.client_env();
        let env = |name: &str| env.get(name).cloned().unwrap_or_default();
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "ib-kubernetes-ufm-secret", "namespace": "kube-system"},
            "stringData": {
                "UFM_USER": env("UFM_USERNAME"), "UFM_PASSWORD": env("UFM_PASSWORD"),
                "UFM_ADDRESS": env("UFM_ADDRESS"), "UFM_CERTIFICATE": env("UFM_CERTIFICATE"),
            },
        });
        let config = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "ib-kubernetes-config", "namespace": "kube-system"},
            "data": {
                "DAEMON_SM_PLUGIN": env("DAEMON_SM_PLUGIN"), "DAEMON_PERIODIC_UPDATE": "5",
                "GUID_POOL_RANGE_START": "02:00:00:00:00:00:00:00",
                "GUID_POOL_RANGE_END": "02:FF:FF:FF:FF:FF:FF:FF",
            },
        });
        json!({"apiVersion": "v1", "kind": "List", "items": [secret, config]})
    }
}
