//! The control plane on the machine `control`: etcd, API server, controller manager, scheduler.

use super::machine::LabMachine;
use super::network::{CONTROL_ADDRESS, POD_RANGE, SERVICE_RANGE};
use super::processes::{self, LabProgram};
use super::{Lab, credentials};
use crate::progress::{ProgressStep, wait_until};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// Audit log of the API server; tests count an ADD's requests with it.
pub const AUDIT_LOG: &str = "var/log/lab/audit.log";

/// Audits everything except the control plane's own requests and the nodes' heartbeats.
const AUDIT_POLICY: &str = r#"apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, users: ["system:apiserver", "system:kube-controller-manager", "system:kube-scheduler", "system:kube-proxy"]}
- {level: None, resources: [{group: coordination.k8s.io, resources: [leases]}]}
- {level: None, nonResourceURLs: ["/healthz*", "/livez*", "/readyz*", "/version", "/api*", "/openapi*"]}
- {level: Metadata}
"#;

/// Starts missing programs and waits until the API server is ready.
pub fn ensure(lab: &Lab, machine: &LabMachine, nodes: &[String], step: &mut ProgressStep) -> Result<()> {
    let secrets = machine.root().join("etc/lab");
    credentials::create(&secrets, nodes)?;
    for who in ["controllers", "scheduler"] {
        let text = credentials::kubeconfig(&secrets, who, Path::new("/etc/lab/ca.crt"))?;
        credentials::write_secret(&secrets.join(format!("{who}.kubeconfig")), &text)?;
    }
    let admin = credentials::kubeconfig(&secrets, "admin", &secrets.join("ca.crt"))?;
    credentials::write_secret(&lab.kubeconfig(), &admin)?;
    fs::write(secrets.join("audit.yaml"), AUDIT_POLICY).context("cannot write the audit policy")?;

    step.update("etcd and API server");
    wait_until("the API server", Duration::from_secs(90), step, || {
        // In every iteration: a program that was just killed looks alive for a moment.
        processes::ensure(machine, &[etcd(), api_server()]).map_err(|e| format!("{e:#}"))?;
        check_ready(lab)
    })?;
    processes::ensure(machine, &[controllers(lab.emulated_series().is_some()), scheduler()])?;
    Ok(())
}

/// Fails unless the API server is ready.
pub fn check_ready(lab: &Lab) -> Result<(), String> {
    let mut kubectl = lab.kubectl().map_err(|e| e.to_string())?;
    let out =
        kubectl.args(["get", "--raw", "/readyz"]).stdin(Stdio::null()).output().map_err(|e| e.to_string())?;
    if out.status.success() { Ok(()) } else { Err("waiting for the API server".to_string()) }
}

fn etcd() -> LabProgram {
    // A lab may lose data in a power cut, so it need not wait for the disk.
    LabProgram::new(
        "etcd",
        [
            "--data-dir=/var/lib/etcd",
            "--listen-client-urls=http://127.0.0.1:2379",
            "--advertise-client-urls=http://127.0.0.1:2379",
            "--listen-peer-urls=http://127.0.0.1:2380",
            "--unsafe-no-fsync",
            "--logger=zap",
            "--log-level=warn",
        ],
    )
}

fn api_server() -> LabProgram {
    LabProgram::new(
        "kube-apiserver",
        [
            "--etcd-servers=http://127.0.0.1:2379",
            &format!("--bind-address={CONTROL_ADDRESS}"),
            &format!("--advertise-address={CONTROL_ADDRESS}"),
            &format!("--service-cluster-ip-range={SERVICE_RANGE}"),
            "--authorization-mode=Node,RBAC",
            "--token-auth-file=/etc/lab/tokens.csv",
            "--client-ca-file=/etc/lab/ca.crt",
            "--tls-cert-file=/etc/lab/apiserver.crt",
            "--tls-private-key-file=/etc/lab/apiserver.key",
            "--kubelet-client-certificate=/etc/lab/kubelet-client.crt",
            "--kubelet-client-key=/etc/lab/kubelet-client.key",
            "--kubelet-preferred-address-types=InternalIP",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-account-key-file=/etc/lab/service-accounts.pub",
            "--service-account-signing-key-file=/etc/lab/service-accounts.key",
            "--enable-admission-plugins=NodeRestriction",
            // Call webhooks at the pods' addresses: this machine has no kube-proxy.
            "--enable-aggregator-routing=true",
            "--allow-privileged=true",
            "--audit-policy-file=/etc/lab/audit.yaml",
            &format!("--audit-log-path=/{AUDIT_LOG}"),
            "--audit-log-maxsize=200",
            "--audit-log-maxbackup=1",
            "--profiling=false",
        ],
    )
}

fn controllers(emulated: bool) -> LabProgram {
    // Detect a rebooted node within seconds; an emulated node may just be slow.
    let grace = if emulated { "120s" } else { "20s" };
    LabProgram::new(
        "kube-controller-manager",
        [
            "--kubeconfig=/etc/lab/controllers.kubeconfig",
            "--authentication-kubeconfig=/etc/lab/controllers.kubeconfig",
            "--authorization-kubeconfig=/etc/lab/controllers.kubeconfig",
            "--service-account-private-key-file=/etc/lab/service-accounts.key",
            "--root-ca-file=/etc/lab/ca.crt",
            "--use-service-account-credentials=true",
            &format!("--cluster-cidr={POD_RANGE}"),
            "--bind-address=127.0.0.1",
            "--leader-elect=false",
            "--node-monitor-period=2s",
            &format!("--node-monitor-grace-period={grace}"),
        ],
    )
}

fn scheduler() -> LabProgram {
    LabProgram::new(
        "kube-scheduler",
        [
            "--kubeconfig=/etc/lab/scheduler.kubeconfig",
            "--authentication-kubeconfig=/etc/lab/scheduler.kubeconfig",
            "--authorization-kubeconfig=/etc/lab/scheduler.kubeconfig",
            "--bind-address=127.0.0.1",
            "--leader-elect=false",
        ],
    )
}
