//! `ferroband node --dry-run` on simulated hardware.

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

type Snapshot = BTreeMap<PathBuf, Option<Vec<u8>>>;

/// All files, links and directories below `dir`, with their content.
fn snapshot(dir: &Path) -> Snapshot {
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
fn differences(before: &Snapshot, after: &Snapshot) -> BTreeSet<PathBuf> {
    let differs = |path: &&PathBuf| before.get(*path) != after.get(*path);
    before.keys().chain(after.keys()).filter(differs).cloned().collect()
}

fn dry_run(folder: &Path, state: &Value, format: &str) -> String {
    let file = folder.join("state.json");
    fs::write(&file, state.to_string()).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_ferroband"))
        .args(["node", "--dry-run", "-o", format, "-f"])
        .arg(file)
        .arg("--root")
        .arg(folder.join("root"))
        .env_remove("NODE_NAME")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn dry_run_lists_the_actions_in_order_and_leaves_the_node_as_it_is() {
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let root = Root::at(folder.path().join("root"));
    fs::create_dir_all(root.base()).unwrap();
    let options = SimulationOptions { seed: "n1".to_owned(), uplink: None };
    Simulation::up(&root, Profile::builtin("default").unwrap(), options).unwrap();
    let pf = "0000:86:00.0";
    let state = |count: u32| {
        json!({
            "apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovNetworkNodeState",
            "metadata": {"name": "n1"},
            "spec": {
                "interfaces": [{
                    "pciAddress": pf, "numVfs": count, "mtu": 4000,
                    "vfGroups": [{"resourceName": "r", "vfRange": format!("0-{}", count - 1)}],
                }],
                "system": {"rdmaMode": "exclusive"},
            },
        })
    };
    let before = snapshot(folder.path().join("root").as_path());
    let first: Value = serde_json::from_str(&dry_run(folder.path(), &state(32), "json")).unwrap();
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
    let text = dry_run(folder.path(), &state(4), "table");
    let lines: Vec<_> =
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(lines[0], "TARGET CHANGE WAITS FOR");
    assert_eq!(lines.last().unwrap(), &format!("{pf} recreate as 4 virtual functions"), "{text}");
    assert_eq!(differences(&before, &snapshot(root.base())), BTreeSet::new());

    // A function that a pod holds, and one without a GUID, which only the node daemon can choose.
    let hardware = ferroband_sim::hardware(&root).unwrap();
    hardware.set_vf_count(pf.parse().unwrap(), 4).unwrap();
    // The simulation records the counters of the new interfaces when it is read for the first time.
    hardware.refresh().unwrap();
    let checkpoint = root.path("var/lib/kubelet/device-plugins/kubelet_internal_checkpoint");
    fs::create_dir_all(checkpoint.parent().unwrap()).unwrap();
    let entry = json!({"PodUID": "u1", "ContainerName": "c", "ResourceName": "x/r", "DeviceIDs": {"0": ["0000:86:00.3"]}});
    fs::write(&checkpoint, json!({"Data": {"PodDeviceEntries": [entry]}, "Checksum": 1}).to_string())
        .unwrap();
    let before = snapshot(root.base());
    let second: Value = serde_json::from_str(&dry_run(folder.path(), &state(8), "json")).unwrap();
    let waits = second["actions"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(waits["change"], "recreate as 8 virtual functions");
    assert_eq!(waits["waitsFor"], "drain of the pods that hold the adapter's functions");
    let third: Value = serde_json::from_str(&dry_run(folder.path(), &state(4), "json")).unwrap();
    assert!(third["problems"][0].as_str().unwrap().contains("a dry run assigns none"), "{third}");
    assert_eq!(differences(&before, &snapshot(root.base())), BTreeSet::new());
}
