//! A subnet manager for the lab: a simulated UFM on the control plane's network. Its partitions are written to the
//! nodes' simulated ports.

use crate::{TestObjects, eventually, exec_on, kubectl_get, machine_command, node_names};
use ferroband_testbed::pkey_table_writer::PKeyTableWriter;
use ferroband_testbed::ufm::{UfmSimulator, UfmSimulatorOptions};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

/// Address of the control plane, where UFM listens on its usual port.
const ADDRESS: &str = "10.77.0.1";

/// A running simulated UFM. Drop removes it and its objects, and resets the P_Key tables.
pub struct UfmFabric {
    /// The subnet manager.
    pub ufm: Arc<UfmSimulator>,
    _painter: PKeyTableWriter,
    _objects: TestObjects,
}

impl UfmFabric {
    /// Starts UFM and configures the cluster with the Secret of document 003 and the ConfigMap of ib-kubernetes.
    #[track_caller]
    pub fn up() -> Self {
        let listen = SocketAddr::new(ADDRESS.parse().expect("an address"), 443);
        let start = UfmSimulatorOptions::from_document(listen, control_netns()).expect("a certificate");
        let ufm = Arc::new(UfmSimulator::start(start).expect("a simulated UFM"));
        let writer = |node: &String| machine_command(node, &["ferroband", "sim", "fabric"]);
        let painter =
            PKeyTableWriter::start(ufm.clone(), node_names().iter().map(writer).collect()).expect("writers");
        let mut objects = TestObjects::default();
        objects.apply(&ufm.kubernetes_objects().to_string());
        let fabric = Self { ufm, _painter: painter, _objects: objects };
        fabric.wait_condition("Reachable", "True", 60);
        fabric
    }

    /// Waits for a condition of the Fabric object.
    #[track_caller]
    pub fn wait_condition(&self, kind: &str, status: &str, seconds: u64) -> Value {
        eventually(&format!("fabric {kind}={status}"), seconds, || {
            let list = kubectl_get(&["fabrics.ferroband.io"]);
            let fabric = list["items"][0].clone();
            let all = fabric["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let manager = fabric["status"]["manager"].as_str().unwrap_or_default();
            match all.into_iter().find(|condition| condition["type"] == kind) {
                Some(found) if found["status"] == status && manager.contains("ufm") => Ok(found),
                _ => Err(list.to_string()),
            }
        })
    }

    /// The GUIDs of a partition's members according to UFM.
    pub fn members(&self, key: u16) -> Vec<String> {
        let partitions = self.ufm.partitions();
        partitions.get(&key).into_iter().flatten().map(|(guid, _)| guid.to_string()).collect()
    }
}

/// The P_Key tables of a node's ports from sysfs, by port GUID, without empty slots.
#[track_caller]
pub fn pkey_tables(node: &str) -> BTreeMap<String, Vec<String>> {
    let script = "cd /var/lib/ferroband/sim/sys/class/infiniband && for d in */ports/1; do \
                  echo $(cat $d/gids/0) $(for k in $(ls $d/pkeys | sort -n); do cat $d/pkeys/$k; done); done";
    let text = exec_on(node, script).stdout_or_panic();
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let gid = words.next()?.replace(':', "");
        let bytes: Vec<&str> = (16..32).step_by(2).filter_map(|at| gid.get(at..at + 2)).collect();
        let keys = words.filter(|key| *key != "0x0000").map(str::to_owned).collect();
        Some((bytes.join(":"), keys))
    };
    text.lines().filter_map(line).collect()
}

/// The path of the control plane's network namespace, found by inode.
fn control_netns() -> PathBuf {
    let link = exec_on("control", "readlink /proc/self/ns/net").stdout_or_panic();
    let number: u64 = link.trim().trim_start_matches("net:[").trim_end_matches(']').parse().expect("net:[…]");
    let all = fs::read_dir("/run/netns").expect("named namespaces").flatten();
    let found =
        all.map(|entry| entry.path()).find(|path| fs::metadata(path).is_ok_and(|m| m.ino() == number));
    found.unwrap_or_else(|| panic!("no name for {link}"))
}
