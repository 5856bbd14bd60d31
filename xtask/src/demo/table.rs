//! Who has what: a line for each pod, put together from what the cluster itself tells.

use super::kubectl_json;
use crate::command::output;
use crate::lab::Lab;
use anyhow::{Context, Result};
use serde_json::Value;
use std::process::Stdio;

/// A pod of the demo.
pub struct DemoPod {
    /// Its namespace.
    pub tenant: String,
    /// Its name.
    pub pod: String,
    /// Where it runs.
    pub node: String,
    /// Its interface on the fabric.
    pub interface: String,
    /// The function's RDMA device.
    pub device: String,
    /// Its address there.
    pub ip: String,
    /// Its port's GUID.
    pub guid: String,
    /// The partition that its port is in.
    pub pkey: String,
    /// How the subnet manager stands to it.
    pub state: String,
}

/// All pods of the tenants.
pub fn list_pods(lab: &Lab, tenants: &[&str]) -> Result<Vec<DemoPod>> {
    let told = output(lab.ferroband()?.args(["partition", "members", "-o", "json"]).stdin(Stdio::null()))?;
    let members: Value = serde_json::from_str(&told).context("ferroband printed no JSON")?;
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
    let row = row.with_context(|| format!("{name} is in no partition: {members}"))?;
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

/// In columns.
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
