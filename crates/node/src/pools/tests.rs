//! Tests of parsing pool configurations and of selecting devices.

use super::{
    DevicePoolKind, PoolDefaults, PoolSources, build_advertised_pools,
    fixture::{A, advertise, device_ids, jarvice_pool, node, parse_config, vf_address},
};
use std::{collections::BTreeSet, fs, sync::Arc, time::Duration};

/// Returns a configuration with one SR-IOV pool, `ib_vfs`.
fn sriov_config(selectors: &str) -> String {
    format!(r#"{{"resourceList":[{{"resourceName":"ib_vfs","selectors":{selectors}}}]}}"#)
}

fn selected(selectors: &str) -> Vec<String> {
    let (pools, problems) = advertise(&sriov_config(selectors), &node(4));
    assert_eq!(problems, [] as [&str; 0]);
    device_ids(&pools[0]).into_iter().map(str::to_owned).collect()
}

// Case: operator C73
#[test]
fn idle_vfs_are_healthy_devices_on_their_numa_node() {
    let (pools, problems) =
        advertise(&sriov_config(r#"{"isRdma":true,"linkTypes":["infiniband"]}"#), &node(4));
    assert_eq!(problems, [] as [&str; 0]);
    assert_eq!(pools[0].pool.resource.to_string(), "openshift.io/ib_vfs");
    assert_eq!(device_ids(&pools[0]), [vf_address(0), vf_address(1), vf_address(2), vf_address(3)]);
    assert!(
        pools[0].devices.iter().all(|device| device.healthy && device.numa == Some(0) && device.uplink == A)
    );
}

// Case: operator C74
#[test]
fn keys_are_case_insensitive_and_null_fields_are_ignored() {
    for key in ["IsRdma", "isRdma", "ISRDMA"] {
        assert_eq!(selected(&format!(r#"{{"Vendors":["15b3"],"{key}":true,"pfnames":["ibs1"]}}"#)).len(), 4);
    }
    let operator = r#"{"resourceList":[{"resourceName":"r","excludeTopology":true,"selectors":
        {"vendors":["15b3"],"pfNames":["ibs1#0-1"],"IsRdma":true,"NeedVhostNet":false},"SelectorObj":null}]}"#;
    let (pools, problems) = advertise(operator, &node(4));
    assert_eq!((device_ids(&pools[0]).len(), problems.len()), (2, 0));
    assert_eq!(parse_config(r#"{"resourceList":null}"#), Default::default());
}

#[test]
fn unknown_keys_are_reported_and_ignored() {
    let text =
        r#"{"resourceList":[{"resourceName":"r","selectors":{"pfName":["ibs1"],"isRdma":true}}],"x":1}"#;
    let (pools, problems) = advertise(text, &node(4));
    // The unknown key `pfName` selects nothing, so port B matches in addition to the four virtual functions
    // of A.
    assert_eq!(device_ids(&pools[0]).len(), 5);
    assert!(problems[0].starts_with("f.json: resourceList[0].selectors.pfName: unknown"), "{problems:?}");
    assert!(problems[1].starts_with("f.json: x: unknown"), "{problems:?}");
}

// Case: operator C75
#[test]
fn vf_ranges_of_a_physical_function_are_selected() {
    assert_eq!(selected(r#"{"pfNames":["ibs1#0,2-3"]}"#), [vf_address(0), vf_address(2), vf_address(3)]);
    assert_eq!(selected(r#"{"rootDevices":["0000:3B:00.0#1"]}"#), [vf_address(1)]);
    // Two entries for one physical function both apply. The upstream plugin ignores the second.
    assert_eq!(selected(r#"{"pfNames":["ibs1#0","ibs1#3"]}"#), [vf_address(0), vf_address(3)]);
    assert_eq!(
        selected(r#"[{"pfNames":["ibs1#3"]},{"pciAddresses":["0000:3b:00.2"]}]"#),
        [vf_address(0), vf_address(3)]
    );
}

// Case: operator C76
#[test]
fn topology_is_omitted_if_unknown_or_excluded() {
    let mut inventory = node(2);
    inventory.functions.iter_mut().find(|function| function.pci == vf_address(0)).unwrap().numa = None;
    let (one, _) = advertise(&sriov_config(r#"{"isRdma":true,"pfNames":["ibs1"]}"#), &inventory);
    assert_eq!(one[0].devices.iter().map(|device| device.numa).collect::<Vec<_>>(), [None, Some(0)]);
    let text =
        r#"{"resourceList":[{"resourceName":"r","excludeTopology":true,"selectors":{"pfNames":["ibs1"]}}]}"#;
    let (empty, _) = advertise(text, &inventory);
    assert!(empty[0].devices.iter().all(|device| device.numa.is_none()));
}

// Case: operator C82
#[test]
fn pkeys_match_as_written_and_short_ones_by_number() {
    let is_selected = |table: &str, requested: &str| {
        let mut inventory = node(1);
        let function = inventory.functions.iter_mut().find(|function| function.pci == vf_address(0)).unwrap();
        function.first_pkey = Some(table.to_owned());
        let (pools, _) = advertise(&sriov_config(&format!(r#"{{"pKeys":["{requested}"]}}"#)), &inventory);
        !pools[0].devices.is_empty()
    };
    assert!(is_selected("0x7fff", "0x7fff") && is_selected("0x8001", "0x1") && is_selected("0x0001", "0x1"));
    assert!(!is_selected("0xffff", "0x7fff") && !is_selected("0x8002", "0x1"));
}

// Case: operator C83
#[test]
fn functions_with_default_route_or_vfs_are_never_advertised() {
    let mut inventory = node(4);
    let (before, _) = advertise(&sriov_config("{}"), &inventory);
    assert!(!device_ids(&before[0]).contains(&A), "a function with virtual functions");
    assert!(device_ids(&before[0]).contains(&"0000:d8:00.0"));
    inventory.functions.iter_mut().find(|function| function.vendor == "8086").unwrap().default_route = true;
    let (after, _) = advertise(&sriov_config("{}"), &inventory);
    assert!(!device_ids(&after[0]).contains(&"0000:d8:00.0"));
}

// Case: operator C85
#[test]
fn duplicate_resource_name_is_reported_unless_the_prefix_differs() {
    let text = r#"{"resourceList":[
        {"resourceName":"r","selectors":{"pfNames":["ibs1#0"]}},
        {"resourceName":"r","selectors":{"pfNames":["ibs1#1"]}},
        {"resourceName":"r","resourcePrefix":"example.com","selectors":{"pfNames":["ibs1#2"]}}]}"#;
    let (pools, problems) = advertise(text, &node(4));
    assert_eq!(
        pools.iter().map(device_ids).collect::<Vec<_>>(),
        [[vf_address(0).as_str()], [vf_address(2).as_str()]]
    );
    let [problem] = problems.as_slice() else { panic!("{problems:?}") };
    assert!(
        problem.starts_with("f.json: resourceList[1].resourceName: openshift.io/r is already configured")
    );
}

// Case: operator C86
#[test]
fn invalid_pools_are_reported_and_the_others_are_used() {
    let text = r#"{"resourceList":[
        {"resourceName":"a","selectors":{"isRdma":true,"vdpaType":"vhost"}},
        {"resourceName":"b","deviceType":"spaceship"},
        {"resourceName":"junk.net.0"},
        {"resourceName":"c","selectors":{"vendors":"15b3"}},
        {"resourceName":"sriov-net_0","selectors":[{"isRdma":true,"pfNames":["ibs1#0","pf#x"]}]}]}"#;
    let (pools, problems) = advertise(text, &node(4));
    assert_eq!((pools.len(), device_ids(&pools[0])), (1, vec![vf_address(0).as_str()]));
    let starts = [
        "f.json: resourceList[0].selectors.vdpaType: cannot be combined with isRdma",
        "f.json: resourceList[1].deviceType: `spaceship` is not",
        "f.json: resourceList[2].resourceName: `openshift.io/junk.net.0`",
        "f.json: resourceList[3].selectors.vendors: must be a list",
        "f.json: resourceList[4].selectors[0].pfNames[1]: `pf#x`",
    ];
    assert_eq!(problems.len(), starts.len(), "{problems:#?}");
    for (problem, start) in problems.iter().zip(starts) {
        assert!(problem.starts_with(start), "{problem}");
    }
}

// Case: operator C87
#[test]
fn vf_with_its_rdma_device_in_a_pod_stays_advertised() {
    let mut inventory = node(2);
    inventory.exclusive = Some(true);
    inventory.devices.retain(|device| device.pci.as_deref() != Some(vf_address(0).as_str()));
    inventory.functions.iter_mut().find(|function| function.pci == vf_address(0)).unwrap().rdma.clear();
    let (pools, _) = advertise(&sriov_config(r#"{"isRdma":true,"pfNames":["ibs1"]}"#), &inventory);
    assert_eq!(device_ids(&pools[0]), [vf_address(0), vf_address(1)]);
}

#[test]
fn device_in_two_pools_belongs_to_the_first_and_is_reported() {
    let text = r#"{"resourceList":[
        {"resourceName":"a","selectors":{"pfNames":["ibs1#0-2"]}},
        {"resourceName":"b","selectors":{"pfNames":["ibs1#2-3"]}}]}"#;
    let (pools, problems) = advertise(text, &node(4));
    assert_eq!((device_ids(&pools[0]).len(), device_ids(&pools[1])), (3, vec![vf_address(3).as_str()]));
    let [problem] = problems.as_slice() else { panic!("{problems:?}") };
    assert!(problem.contains(&vf_address(2)) && problem.contains("openshift.io/a"), "{problem}");
}

#[test]
fn selector_without_matches_lists_the_interfaces_of_the_node() {
    let (pools, problems) = advertise(&sriov_config(r#"{"vendors":["15b3"],"pfNames":["ens7"]}"#), &node(1));
    assert!(pools[0].devices.is_empty());
    let [problem] = problems.as_slice() else { panic!("{problems:?}") };
    assert!(problem.contains("pfNames") && problem.contains("ibs1 (15b3:1017 at 0000:3b:00.0)"), "{problem}");
}

/// Returns a configuration with one shared pool, `hca_a`. `rest` are its other fields.
fn shared_config(rest: &str) -> String {
    format!(r#"{{"configList":[{{"resourceName":"hca_a",{rest}}}]}}"#)
}

// Case: operator C92
#[test]
fn periodic_update_interval_is_validated() {
    let problems = |text: &str| parse_config(text).problems.len();
    assert_eq!(problems(r#"{"configList":[]}"#), 0);
    assert_eq!(problems(r#"{"configList":[],"periodicUpdateInterval":300}"#), 0);
    assert_eq!(problems(r#"{"configList":[],"periodicUpdateInterval":0}"#), 0);
    assert_eq!(problems(r#"{"configList":[],"periodicUpdateInterval":-1}"#), 1);
}

// Case: operator C93
#[test]
fn shared_pool_has_the_configured_number_of_devices() {
    let (pools, problems) =
        advertise(&shared_config(r#""rdmaHcaMax":3,"selectors":{"ifNames":["ibs1"]}"#), &node(4));
    assert_eq!(problems, [] as [&str; 0]);
    assert_eq!(pools[0].pool.resource.to_string(), "rdma/hca_a");
    assert_eq!(device_ids(&pools[0]), ["0", "1", "2"]);
    let files: Vec<_> = pools[0].files.iter().map(|file| file.path.display().to_string()).collect();
    assert_eq!(files, ["/dev/infiniband/uverbs0"], "no umad, no issm, no VF");
}

// Case: operator C94
#[test]
fn exactly_one_of_selectors_and_devices_is_required() {
    let both = shared_config(r#""rdmaHcaMax":1,"devices":["ibs1"],"selectors":{}"#);
    let neither = shared_config(r#""rdmaHcaMax":1"#);
    for (text, word) in [(both, "both"), (neither, "neither")] {
        let (pools, problems) = advertise(&text, &node(0));
        assert!(pools.is_empty() && problems[0].contains(word), "{problems:?}");
    }
    let (pools, _) = advertise(&shared_config(r#""rdmaHcaMax":2,"devices":["ibs1"]"#), &node(0));
    assert_eq!(device_ids(&pools[0]), ["0", "1"]);
}

// Case: operator C96
#[test]
fn shared_pool_names_and_counts_are_validated() {
    let pool = |name: &str, max: i32| {
        let text = format!(
            r#"{{"configList":[{{"resourceName":"{name}","rdmaHcaMax":{max},"selectors":{{"ifNames":["ibs1"]}}}}]}}"#
        );
        advertise(&text, &node(0)).0.pop()
    };
    assert!(pool("hca-a", 1).is_none() && pool("hca_a", -1).is_none());
    assert_eq!(pool("hca_a", 1).unwrap().devices.len(), 1);
    let empty = pool("hca_a", 0).unwrap();
    assert!(empty.devices.is_empty() && empty.advertise_when_empty());
}

// Case: operator C97
#[test]
fn shared_devices_follow_the_adapter() {
    let text = shared_config(r#""rdmaHcaMax":3,"selectors":{"ifNames":["ibs1"]}"#);
    let mut without = node(0);
    without.functions.retain(|function| function.pci != A);
    without.devices.retain(|device| device.pci.as_deref() != Some(A));
    let count = |inventory| advertise(&text, inventory).0[0].devices.len();
    assert_eq!((count(&node(0)), count(&without), count(&node(0))), (3, 0, 3));
}

// Case: operator C98
#[test]
fn shared_pool_needs_uverbs_but_not_issm() {
    let text = shared_config(r#""rdmaHcaMax":1,"selectors":{"ifNames":["ibs1"]}"#);
    let mut inventory = node(0);
    inventory.devices[0].files.truncate(1);
    assert_eq!(advertise(&text, &inventory).0[0].devices.len(), 1);
    inventory.devices[0].files.clear();
    let (empty, problems) = advertise(&text, &inventory);
    assert!(empty[0].devices.is_empty() && problems[0].contains("uverbs"), "{problems:?}");
}

// Case: operator C99
#[test]
fn exclusive_mode_disables_shared_pools_with_a_problem() {
    let mut inventory = node(0);
    inventory.exclusive = Some(true);
    let (empty, problems) = advertise(&shared_config(r#""rdmaHcaMax":1,"devices":["ibs1"]"#), &inventory);
    assert!(empty[0].devices.is_empty() && problems[0].contains("exclusive mode"), "{problems:?}");
    assert!(problems[0].contains("SriovNetworkPoolConfig"), "{problems:?}");
    // No file requests the whole-node pool, which is offered by default.
    let (whole, problems) =
        build_advertised_pools(&[jarvice_pool()], &inventory, &BTreeSet::new(), &|_| true);
    assert!(whole[0].devices.is_empty() && problems.is_empty(), "{problems:?}");
}

#[test]
fn shared_pools_exclude_functions_of_sriov_pools() {
    let text = r#"{"resourceList":[{"resourceName":"v","selectors":{"pfNames":["ibs1#0-1"],"isRdma":true}}],
        "configList":[{"resourceName":"s","rdmaHcaMax":1,"selectors":{"vendors":["15b3"]}}]}"#;
    let mut configured = parse_config(text).pools;
    configured.push(jarvice_pool());
    let (pools, _) = build_advertised_pools(&configured, &node(4), &BTreeSet::new(), &|_| true);
    let files = |index: usize| -> Vec<String> {
        let names = pools[index].files.iter().filter_map(|file| file.path.file_name());
        names.map(|name| name.to_string_lossy().into_owned()).collect()
    };
    assert_eq!(device_ids(&pools[0]), [vf_address(0), vf_address(1)]);
    for index in [1, 2] {
        let mut files = files(index);
        files.sort();
        assert_eq!(files, ["uverbs0", "uverbs1", "uverbs4", "uverbs5"]);
    }
    // The SR-IOV pool is removed while a pod holds one of its functions. Shared pools must not get this
    // function.
    let (pools, _) =
        build_advertised_pools(&configured[1..], &node(4), &BTreeSet::from([vf_address(0)]), &|_| true);
    let has = |name: &str| pools[0].files.iter().any(|file| file.path.ends_with(name));
    assert!(!has("uverbs2") && has("uverbs3"));
}

#[test]
fn directories_are_read_and_an_invalid_file_keeps_its_last_content() {
    let dir = tempfile::tempdir().unwrap();
    let defaults = PoolDefaults { prefix: "a.b".to_owned() };
    let sources = PoolSources {
        paths: vec![dir.path().to_owned()],
        node: "n1".to_owned(),
        defaults,
        pools: Vec::new(),
        policies: None,
    };
    let put = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    let pool = |name: &str| format!(r#"{{"resourceList":[{{"resourceName":"{name}"}}]}}"#);
    let mut last_good = Default::default();
    let mut names = |sources: &PoolSources| -> (Vec<String>, usize) {
        let config = sources.read(&mut last_good);
        assert!(config.pools.iter().all(|pool| matches!(pool.kind, DevicePoolKind::Functions(_))));
        (config.pools.iter().map(|pool| pool.resource.to_string()).collect(), config.problems.len())
    };
    put("a.json", &pool("one"));
    put("b.json", &pool("two"));
    put("notes.txt", "not a pool file");
    assert_eq!(names(&sources), (vec!["a.b/one".to_owned(), "a.b/two".to_owned()], 0));
    put("a.json", "{");
    assert_eq!(names(&sources), (vec!["a.b/one".to_owned(), "a.b/two".to_owned()], 1));
    put("b.json", &pool("three"));
    assert_eq!(names(&sources), (vec!["a.b/one".to_owned(), "a.b/three".to_owned()], 1));
    // The operator's ConfigMap has one key per node. The file of this node, n1, must be used alone.
    put("n1", &pool("mine"));
    put("n2", &pool("yours"));
    assert_eq!(names(&sources), (vec!["a.b/mine".to_owned()], 0));
    fs::remove_file(dir.path().join("n1")).unwrap();
    let missing = PoolSources { paths: vec![dir.path().join("none.json")], ..sources };
    assert_eq!(names(&missing), (vec![], 1));
}

#[tokio::test]
async fn file_change_is_noticed_within_a_second() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.json");
    let defaults = PoolDefaults { prefix: "a.b".to_owned() };
    let sources = PoolSources {
        paths: vec![path.clone()],
        node: String::new(),
        defaults,
        pools: Vec::new(),
        policies: None,
    };
    let (sender, mut receiver) = tokio::sync::watch::channel(Arc::default());
    let reading = tokio::spawn(super::watch_pool_config(sources, sender));
    fs::write(&path, r#"{"resourceList":[{"resourceName":"one"}]}"#).unwrap();
    let limit = Duration::from_secs(1);
    let has = |count| move |config: &Arc<super::PoolConfig>| config.pools.len() == count;
    tokio::time::timeout(limit, receiver.wait_for(has(1))).await.expect("within a second").unwrap();
    let next = dir.path().join(".next");
    fs::write(&next, r#"{"resourceList":[{"resourceName":"one"},{"resourceName":"two"}]}"#).unwrap();
    fs::rename(next, &path).unwrap();
    tokio::time::timeout(limit, receiver.wait_for(has(2))).await.expect("within a second").unwrap();
    reading.abort();
}

#[tokio::test]
async fn removed_directory_is_noticed_within_a_second() {
    let dir = tempfile::tempdir().unwrap();
    let configured = dir.path().join("configured");
    fs::create_dir(&configured).unwrap();
    fs::write(configured.join("a.json"), r#"{"resourceList":[{"resourceName":"one"}]}"#).unwrap();
    let sources = PoolSources {
        paths: vec![configured.clone()],
        node: String::new(),
        defaults: PoolDefaults { prefix: "a.b".to_owned() },
        pools: Vec::new(),
        policies: None,
    };
    let (sender, mut receiver) = tokio::sync::watch::channel(Arc::default());
    let reading = tokio::spawn(super::watch_pool_config(sources, sender));
    let limit = Duration::from_secs(1);
    let has = |count| move |config: &Arc<super::PoolConfig>| config.pools.len() == count;
    tokio::time::timeout(limit, receiver.wait_for(has(1))).await.expect("within a second").unwrap();
    // Wait until the directory is watched. A rename changes no entry of the directory itself.
    tokio::time::sleep(Duration::from_millis(200)).await;
    fs::rename(&configured, dir.path().join("moved")).unwrap();
    tokio::time::timeout(limit, receiver.wait_for(has(0))).await.expect("within a second").unwrap();
    reading.abort();
}
