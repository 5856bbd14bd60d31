//! `ferroband node --dry-run` on simulated hardware.

use crate::api::FakeApiServer;
use ferroband_kernel::Root;
use ferroband_sim::{Profile, Simulation, SimulationOptions};
use nix::sched::{CloneFlags, unshare};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    path::PathBuf,
    process::Command,
};

const PF: &str = "0000:86:00.0";

type FileTree = BTreeMap<PathBuf, Option<Vec<u8>>>;

/// All files, links and directories below `dir`, with their content.
fn snapshot(dir: &Path) -> FileTree {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        if kind.is_dir() {
            all.extend(snapshot(&path));
        }
        all.insert(path.clone(), kind.is_file().then(|| fs::read(&path).unwrap()));
    }
    all
}

/// The paths that differ between two snapshots.
fn differences(before: &FileTree, after: &FileTree) -> BTreeSet<PathBuf> {
    let differs = |path: &&PathBuf| before.get(*path) != after.get(*path);
    before.keys().chain(after.keys()).filter(differs).cloned().collect()
}

/// Runs `ferroband node --dry-run` and returns what it prints.
fn dry_run(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_ferroband"))
        .args(["node", "--dry-run", "--root"])
        .arg(folder.join("root"))
        .args(arguments)
        .env_remove("NODE_NAME")
        .env("KUBECONFIG", folder.join("kubeconfig"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn dry_run_file(folder: &Path, state: &Value, format: &str) -> String {
    let file = folder.join("state.json");
    fs::write(&file, state.to_string()).unwrap();
    dry_run(folder, &["-o", format, "-f", file.to_str().unwrap()])
}

/// Starts simulated hardware in its own network namespace.
fn simulated_root(folder: &Path) -> Root {
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    let root = Root::at(folder.join("root"));
    fs::create_dir_all(root.base()).unwrap();
    let options = SimulationOptions { seed: "n1".to_owned(), uplink: None };
    Simulation::up(&root, Profile::builtin("default").unwrap(), options).unwrap();
    root
}

/// Creates functions, of which a pod holds the second one.
fn create_functions(root: &Root) {
    let hardware = ferroband_sim::hardware(root).unwrap();
    hardware.set_vf_count(PF.parse().unwrap(), 4).unwrap();
    // The simulation records the counters of the new interfaces when it is read for the first time.
    hardware.refresh().unwrap();
    let checkpoint = root.path("var/lib/kubelet/device-plugins/kubelet_internal_checkpoint");
    fs::create_dir_all(checkpoint.parent().unwrap()).unwrap();
    let entry = json!({"PodUID": "u1", "ContainerName": "c", "ResourceName": "x/r", "DeviceIDs": {"0": ["0000:86:00.3"]}});
    fs::write(&checkpoint, json!({"Data": {"PodDeviceEntries": [entry]}, "Checksum": 1}).to_string())
        .unwrap();
}

fn node_state(count: u32) -> Value {
    json!({
        "apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovNetworkNodeState",
        "metadata": {"name": "n1"},
        "spec": {
            "interfaces": [{
                "pciAddress": PF, "numVfs": count, "mtu": 4000,
                "vfGroups": [{"resourceName": "r", "vfRange": format!("0-{}", count - 1)}],
            }],
            "system": {"rdmaMode": "exclusive"},
        },
    })
}

#[test]
fn dry_run_lists_the_actions_in_order_and_leaves_the_node_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let root = simulated_root(folder.path());
    let (pf, state) = (PF, node_state);
    let before = snapshot(folder.path().join("root").as_path());
    let first: Value = serde_json::from_str(&dry_run_file(folder.path(), &state(32), "json")).unwrap();
    let actions = |result: &Value| -> Vec<(String, String)> {
        let text = |action: &Value, key: &str| action[key].as_str().unwrap().to_owned();
        let all = result["actions"].as_array().unwrap();
        all.iter().map(|action| (text(action, "target"), text(action, "change"))).collect()
    };
    let expected = [
        (pf, "firmware NUM_OF_VFS=32"),
        ("node", "modprobe options ib_core netns_mode=0"),
        ("node", "RDMA mode exclusive"),
        (pf, "save the original state"),
        (pf, "MTU 4000"),
    ];
    assert_eq!(first["node"], "n1");
    assert_eq!(actions(&first), expected.map(|(target, change)| (target.to_owned(), change.to_owned())));
    let text = dry_run_file(folder.path(), &state(4), "table");
    let lines: Vec<_> =
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(lines[0], "TARGET CHANGE WAITS FOR");
    assert_eq!(lines.last().unwrap(), &format!("{pf} set the number of virtual functions to 4"), "{text}");
    assert_eq!(differences(&before, &snapshot(root.base())), BTreeSet::new());

    // A function that a pod holds, and functions without a GUID, which only the node daemon can choose.
    create_functions(&root);
    let before = snapshot(root.base());
    let second: Value = serde_json::from_str(&dry_run_file(folder.path(), &state(8), "json")).unwrap();
    let waits = second["actions"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(waits["change"], "set the number of virtual functions to 8");
    assert_eq!(waits["waitsFor"], "drain of the pods that hold the adapter's functions");
    let third: Value = serde_json::from_str(&dry_run_file(folder.path(), &state(4), "json")).unwrap();
    assert!(third["problems"][0].as_str().unwrap().contains("a dry run assigns none"), "{third}");
    assert_eq!(differences(&before, &snapshot(root.base())), BTreeSet::new());
}

#[test]
fn dry_run_reads_the_node_state_from_the_api_server_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let root = simulated_root(folder.path());
    assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
    create_functions(&root);
    let server = FakeApiServer::reserve().start();
    fs::write(folder.path().join("kubeconfig"), server.kubeconfig()).unwrap();
    let states = "/apis/sriovnetwork.openshift.io/v1/namespaces/ferroband-system/sriovnetworknodestates";
    server.put(states, node_state(4));
    server.put("/api/v1/namespaces", json!({"metadata": {"name": "kube-system", "uid": "cluster"}}));
    server.put("/api/v1/pods", json!({"metadata": {"name": "holder", "namespace": "default", "uid": "u1"}}));
    let before = snapshot(root.base());
    let result: Value =
        serde_json::from_str(&dry_run(folder.path(), &["--node-name=n1", "-o", "json"])).unwrap();
    assert_eq!(result["problems"], json!([]));
    let guids = result["actions"].as_array().unwrap().iter();
    let guids = guids.filter(|action| action["change"].as_str().unwrap().starts_with("GUID 02:"));
    let waits: Vec<_> =
        guids.map(|action| (action["target"].as_str().unwrap(), &action["waitsFor"])).collect();
    let held = json!("held by default/holder");
    let free = &Value::Null;
    let expected =
        [("0000:86:00.2", free), ("0000:86:00.4", free), ("0000:86:00.5", free), ("0000:86:00.3", &held)];
    assert_eq!(waits, expected, "what waits comes last");
    assert_eq!(differences(&before, &snapshot(root.base())), BTreeSet::new());
    assert!(server.calls().iter().all(|call| call.starts_with("GET ")), "{:?}", server.calls());
}
