//! UFM as document 003 has it, and what tells a cluster of it.

use super::{TlsIdentity, UfmSimulator, UfmSimulatorOptions, VersionQuirks};
use anyhow::Result;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::PathBuf;

impl UfmSimulatorOptions {
    /// The document's UFM, in a network namespace.
    pub fn from_document(listen: SocketAddr, netns: PathBuf) -> Result<Self> {
        Ok(Self {
            listen,
            netns: Some(netns),
            // The document's openssl command does not fill the address in, so that is what the certificate says.
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
    /// The Secret of the document and the ConfigMap of ib-kubernetes, as one list.
    pub fn kubernetes_objects(&self) -> Value {
        let told = self.client_env();
        let told = |name: &str| told.get(name).cloned().unwrap_or_default();
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "ib-kubernetes-ufm-secret", "namespace": "kube-system"},
            "stringData": {
                "UFM_USER": told("UFM_USERNAME"), "UFM_PASSWORD": told("UFM_PASSWORD"),
                "UFM_ADDRESS": told("UFM_ADDRESS"), "UFM_CERTIFICATE": told("UFM_CERTIFICATE"),
            },
        });
        let config = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "ib-kubernetes-config", "namespace": "kube-system"},
            "data": {
                "DAEMON_SM_PLUGIN": told("DAEMON_SM_PLUGIN"), "DAEMON_PERIODIC_UPDATE": "5",
                "GUID_POOL_RANGE_START": "02:00:00:00:00:00:00:00",
                "GUID_POOL_RANGE_END": "02:FF:FF:FF:FF:FF:FF:FF",
            },
        });
        json!({"apiVersion": "v1", "kind": "List", "items": [secret, config]})
    }
}
