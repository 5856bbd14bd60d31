//! Table with one line per pod: interface, device, address, GUID and membership, read from the cluster.

use super::kubectl_json;
use anyhow::{Context, Result};
use ferroband_lab::cluster::Lab;
use ferroband_lab::command::output;
use serde_json::Value;
use std::process::Stdio;

/// A pod of the demo.
pub struct DemoPod {
    /// Namespace of the pod.
    pub tenant: String,
    pub pod: String,
    pub node: String,
    /// Interface on the fabric.
    pub interface: String,
    /// RDMA device of the function.
    pub device: String,
    /// Address on that interface.
    pub ip: String,
    /// Port GUID.
    pub guid: String,
    /// P_Key of its partition.
    pub pkey: String,
    /// Membership state at the subnet manager.
    pub state: String,
}

/// Reads all pods of the tenants.
pub fn list_pods(lab: &Lab, tenants: &[&str]) -> Result<Vec<DemoPod>> {
    let output_text =
        output(lab.ferroband()?.args(["partition", "members", "-o", "json"]).stdin(Stdio::null()))?;
    let members: Value = serde_json::from_str(&output_text).context("the output of ferroband is not JSON")?;
    let mut found = Vec::new();
    for tenant in tenants {
        let first = found.len();
        let pods = kubectl_json(lab, &["-n", tenant, "get", "pods", "-o", "json"])?;
        for pod in pods["items"].as_array().into_iter().flatten() {
            found.push(read_pod(tenant, pod, &members)?);
        }
        found[first..].sort_by(|a, b| a.node.cmp(&b.node));
    }
    Ok(found)
}

fn read_pod(tenant: &str, pod: &Value, members: &Value) -> Result<DemoPod> {
    let name = text(&pod["metadata"]["name"]);
    let status = text(&pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/network-status"]);
    let status: Value =
        serde_json::from_str(&status).with_context(|| format!("{name} has no network-status"))?;
    let entry = status.as_array().into_iter().flatten().find(|entry| entry["interface"] == "net1");
    let entry = entry.with_context(|| format!("{name} has no net1: {status}"))?;
    let row = members.as_array().into_iter().flatten().find(|row| row["pod"] == name.as_str());
    let row = row.with_context(|| format!("{name} is not a partition member: {members}"))?;
    Ok(DemoPod {
        tenant: tenant.to_owned(),
        node: text(&pod["spec"]["nodeName"]),
        interface: "net1".to_owned(),
        device: text(&entry["device-info"]["pci"]["rdma-device"]),
        ip: text(&entry["ips"][0]),
        guid: text(&row["guid"]),
        pkey: text(&row["pkey"]),
        state: text(&row["state"]),
        pod: name,
    })
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or("-").to_owned()
}

/// Prints the table.
pub fn print(workers: &[DemoPod]) {
    let title =
        ["TENANT", "POD", "NODE", "INTERFACE", "DEVICE", "IP", "GUID", "P_KEY", "STATE"].map(str::to_owned);
    let line = |w: &DemoPod| {
        [&w.tenant, &w.pod, &w.node, &w.interface, &w.device, &w.ip, &w.guid, &w.pkey, &w.state]
            .map(String::clone)
    };
    let lines: Vec<[String; 9]> = [title].into_iter().chain(workers.iter().map(line)).collect();
    for words in &lines {
        let mut text = String::from("    ");
        for (column, word) in words.iter().enumerate() {
            let width = lines.iter().map(|line| line[column].len()).max().unwrap_or_default();
            text.push_str(&format!("{word:width$}  "));
        }
        println!("{}", text.trim_end());
    }
}
