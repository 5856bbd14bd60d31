//! The contract's cases about configurations and selection, by their ids.

use super::{
    DevicePoolKind, PoolDefaults, PoolSources, build_advertised_pools,
    fixture::{A, advertise, device_ids, jarvice_pool, node, parse_config, vf_address},
    shared_plugin,
};
use crate::pools::json_fields::{JsonFields, ProblemLog};
use std::{collections::BTreeSet, fs, sync::Arc, time::Duration};

/// One SR-IOV pool with this selector.
fn sriov(selectors: &str) -> String {
    format!(r#"{{"resourceList":[{{"resourceName":"ib_vfs","selectors":{selectors}}}]}}"#)
}

fn chosen(selectors: &str) -> Vec<String> {
    let (shares, problems) = advertise(&sriov(selectors), &node(4));
    assert_eq!(problems, [] as [&str; 0]);
    device_ids(&shares[0]).into_iter().map(str::to_owned).collect()
}

#[test]
fn c73_every_idle_vf_is_a_healthy_unit_on_its_numa_node() {
    let (shares, problems) = advertise(&sriov(r#"{"isRdma":true,"linkTypes":["infiniband"]}"#), &node(4));
    assert_eq!(problems, [] as [&str; 0]);
    assert_eq!(shares[0].pool.resource.to_string(), "openshift.io/ib_vfs");
    assert_eq!(device_ids(&shares[0]), [vf_address(0), vf_address(1), vf_address(2), vf_address(3)]);
    assert!(shares[0].devices.iter().all(|unit| unit.healthy && unit.numa == Some(0) && unit.uplink == A));
}

#[test]
fn c74_keys_in_any_casing_and_what_the_operator_leaves_behind() {
    for key in ["IsRdma", "isRdma", "ISRDMA"] {
        assert_eq!(chosen(&format!(r#"{{"Vendors":["15b3"],"{key}":true,"pfnames":["ibs1"]}}"#)).len(), 4);
    }
    let operator = r#"{"resourceList":[{"resourceName":"r","excludeTopology":true,"selectors":
        {"vendors":["15b3"],"pfNames":["ibs1#0-1"],"IsRdma":true,"NeedVhostNet":false},"SelectorObj":null}]}"#;
    let (shares, problems) = advertise(operator, &node(4));
    assert_eq!((device_ids(&shares[0]).len(), problems.len()), (2, 0));
    assert_eq!(parse_config(r#"{"resourceList":null}"#), Default::default());
}

#[test]
fn an_unknown_key_is_named_and_the_rest_stands() {
    let text =
        r#"{"resourceList":[{"resourceName":"r","selectors":{"pfName":["ibs1"],"isRdma":true}}],"x":1}"#;
    let (shares, problems) = advertise(text, &node(4));
    // Nothing keeps B out, which has no virtual functions.
    assert_eq!(device_ids(&shares[0]).len(), 5);
    assert!(problems[0].starts_with("f.json: resourceList[0].selectors.pfName: unknown"), "{problems:?}");
    assert!(problems[1].starts_with("f.json: x: unknown"), "{problems:?}");
}

#[test]
fn c75_ranges_of_a_physical_function() {
    assert_eq!(chosen(r#"{"pfNames":["ibs1#0,2-3"]}"#), [vf_address(0), vf_address(2), vf_address(3)]);
    assert_eq!(chosen(r#"{"rootDevices":["0000:3B:00.0#1"]}"#), [vf_address(1)]);
    // Two entries for one function: upstream forgets the second.
    assert_eq!(chosen(r#"{"pfNames":["ibs1#0","ibs1#3"]}"#), [vf_address(0), vf_address(3)]);
    assert_eq!(
        chosen(r#"[{"pfNames":["ibs1#3"]},{"pciAddresses":["0000:3b:00.2"]}]"#),
        [vf_address(0), vf_address(3)]
    );
}

#[test]
fn c76_topology_is_left_out_where_unknown_or_unwanted() {
    let mut inventory = node(2);
    inventory.functions.iter_mut().find(|function| function.pci == vf_address(0)).unwrap().numa = None;
    let (one, _) = advertise(&sriov(r#"{"isRdma":true,"pfNames":["ibs1"]}"#), &inventory);
    assert_eq!(one[0].devices.iter().map(|unit| unit.numa).collect::<Vec<_>>(), [None, Some(0)]);
    let text =
        r#"{"resourceList":[{"resourceName":"r","excludeTopology":true,"selectors":{"pfNames":["ibs1"]}}]}"#;
    let (none, _) = advertise(text, &inventory);
    assert!(none[0].devices.iter().all(|unit| unit.numa.is_none()));
}

#[test]
fn c82_p_keys_as_written_and_short_ones_by_number() {
    let with = |table: &str, asked: &str| {
        let mut inventory = node(1);
        let function = inventory.functions.iter_mut().find(|function| function.pci == vf_address(0)).unwrap();
        function.first_pkey = Some(table.to_owned());
        let (shares, _) = advertise(&sriov(&format!(r#"{{"pKeys":["{asked}"]}}"#)), &inventory);
        !shares[0].devices.is_empty()
    };
    assert!(with("0x7fff", "0x7fff") && with("0x8001", "0x1") && with("0x0001", "0x1"));
    assert!(!with("0xffff", "0x7fff") && !with("0x8002", "0x1"));
}

#[test]
fn c83_what_the_node_needs_is_never_offered() {
    let mut inventory = node(4);
    let (before, _) = advertise(&sriov("{}"), &inventory);
    assert!(!device_ids(&before[0]).contains(&A), "a function that is split up");
    assert!(device_ids(&before[0]).contains(&"0000:d8:00.0"));
    inventory.functions.iter_mut().find(|function| function.vendor == "8086").unwrap().default_route = true;
    let (after, _) = advertise(&sriov("{}"), &inventory);
    assert!(!device_ids(&after[0]).contains(&"0000:d8:00.0"));
}

#[test]
fn c85_a_name_twice_is_named_and_another_prefix_is_another_name() {
    let text = r#"{"resourceList":[
        {"resourceName":"r","selectors":{"pfNames":["ibs1#0"]}},
        {"resourceName":"r","selectors":{"pfNames":["ibs1#1"]}},
        {"resourceName":"r","resourcePrefix":"example.com","selectors":{"pfNames":["ibs1#2"]}}]}"#;
    let (shares, problems) = advertise(text, &node(4));
    assert_eq!(
        shares.iter().map(device_ids).collect::<Vec<_>>(),
        [[vf_address(0).as_str()], [vf_address(2).as_str()]]
    );
    let [problem] = problems.as_slice() else { panic!("{problems:?}") };
    assert!(problem.starts_with("f.json: resourceList[1].resourceName: openshift.io/r is configured before"));
}

#[test]
fn c86_rdma_and_vdpa_exclude_each_other_and_the_other_pools_stand() {
    let text = r#"{"resourceList":[
        {"resourceName":"a","selectors":{"isRdma":true,"vdpaType":"vhost"}},
        {"resourceName":"b","deviceType":"spaceship"},
        {"resourceName":"junk.net.0"},
        {"resourceName":"c","selectors":{"vendors":"15b3"}},
        {"resourceName":"sriov-net_0","selectors":[{"isRdma":true,"pfNames":["ibs1#0","pf#x"]}]}]}"#;
    let (shares, problems) = advertise(text, &node(4));
    assert_eq!((shares.len(), device_ids(&shares[0])), (1, vec![vf_address(0).as_str()]));
    let starts = [
        "f.json: resourceList[0].selectors.vdpaType: cannot be together with isRdma",
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

#[test]
fn c87_a_vf_whose_rdma_device_is_in_a_pod_still_counts() {
    let mut inventory = node(2);
    inventory.exclusive = Some(true);
    inventory.devices.retain(|device| device.pci.as_deref() != Some(vf_address(0).as_str()));
    inventory.functions.iter_mut().find(|function| function.pci == vf_address(0)).unwrap().rdma.clear();
    let (shares, _) = advertise(&sriov(r#"{"isRdma":true,"pfNames":["ibs1"]}"#), &inventory);
    assert_eq!(device_ids(&shares[0]), [vf_address(0), vf_address(1)]);
}

#[test]
fn a_device_in_two_pools_is_the_first_ones_and_told() {
    let text = r#"{"resourceList":[
        {"resourceName":"a","selectors":{"pfNames":["ibs1#0-2"]}},
        {"resourceName":"b","selectors":{"pfNames":["ibs1#2-3"]}}]}"#;
    let (shares, problems) = advertise(text, &node(4));
    assert_eq!((device_ids(&shares[0]).len(), device_ids(&shares[1])), (3, vec![vf_address(3).as_str()]));
    let [problem] = problems.as_slice() else { panic!("{problems:?}") };
    assert!(problem.contains(&vf_address(2)) && problem.contains("openshift.io/a"), "{problem}");
}

#[test]
fn a_selector_that_chooses_nothing_says_what_there_is() {
    let (shares, problems) = advertise(&sriov(r#"{"vendors":["15b3"],"pfNames":["ens7"]}"#), &node(1));
    assert!(shares[0].devices.is_empty());
    let [problem] = problems.as_slice() else { panic!("{problems:?}") };
    assert!(problem.contains("pfNames") && problem.contains("ibs1 (15b3:1017 at 0000:3b:00.0)"), "{problem}");
}

/// One shared pool.
fn one_shared(rest: &str) -> String {
    format!(r#"{{"configList":[{{"resourceName":"hca_a",{rest}}}]}}"#)
}

#[test]
fn c92_the_interval_is_checked() {
    let interval = |text: &str| {
        let mut notes = ProblemLog::for_file("f");
        let mut fields = JsonFields::from_value(serde_json::from_str(text).unwrap(), "", &mut notes).unwrap();
        (shared_plugin::update_interval(&mut fields, &mut notes), notes.problems.len())
    };
    assert_eq!(interval("{}"), (Some(Duration::from_secs(60)), 0));
    assert_eq!(interval(r#"{"periodicUpdateInterval":300}"#), (Some(Duration::from_secs(300)), 0));
    assert_eq!(interval(r#"{"periodicUpdateInterval":0}"#), (None, 0));
    assert_eq!(interval(r#"{"periodicUpdateInterval":-1}"#).1, 1);
}

#[test]
fn c93_so_many_units_of_the_chosen_interface() {
    let (shares, problems) =
        advertise(&one_shared(r#""rdmaHcaMax":3,"selectors":{"ifNames":["ibs1"]}"#), &node(4));
    assert_eq!(problems, [] as [&str; 0]);
    assert_eq!(shares[0].pool.resource.to_string(), "rdma/hca_a");
    assert_eq!(device_ids(&shares[0]), ["0", "1", "2"]);
    let files: Vec<_> = shares[0].files.iter().map(|file| file.path.display().to_string()).collect();
    assert_eq!(files, ["/dev/infiniband/uverbs0"], "no umad, no issm, no VF");
}

#[test]
fn c94_selectors_or_devices() {
    let both = one_shared(r#""rdmaHcaMax":1,"devices":["ibs1"],"selectors":{}"#);
    let neither = one_shared(r#""rdmaHcaMax":1"#);
    for (text, word) in [(both, "both"), (neither, "neither")] {
        let (shares, problems) = advertise(&text, &node(0));
        assert!(shares.is_empty() && problems[0].contains(word), "{problems:?}");
    }
    let (shares, _) = advertise(&one_shared(r#""rdmaHcaMax":2,"devices":["ibs1"]"#), &node(0));
    assert_eq!(device_ids(&shares[0]), ["0", "1"]);
}

#[test]
fn c96_names_and_counts() {
    let pool = |name: &str, max: i32| {
        let text = format!(
            r#"{{"configList":[{{"resourceName":"{name}","rdmaHcaMax":{max},"selectors":{{"ifNames":["ibs1"]}}}}]}}"#
        );
        advertise(&text, &node(0)).0.pop()
    };
    assert!(pool("hca-a", 1).is_none() && pool("hca_a", -1).is_none());
    assert_eq!(pool("hca_a", 1).unwrap().devices.len(), 1);
    let none = pool("hca_a", 0).unwrap();
    assert!(none.devices.is_empty() && none.advertise_when_empty());
}

#[test]
fn c97_the_units_go_and_come_with_the_adapter() {
    let text = one_shared(r#""rdmaHcaMax":3,"selectors":{"ifNames":["ibs1"]}"#);
    let mut without = node(0);
    without.functions.retain(|function| function.pci != A);
    without.devices.retain(|device| device.pci.as_deref() != Some(A));
    let count = |inventory| advertise(&text, inventory).0[0].devices.len();
    assert_eq!((count(&node(0)), count(&without), count(&node(0))), (3, 0, 3));
}

#[test]
fn c98_issm_is_not_needed_but_uverbs_is() {
    let text = one_shared(r#""rdmaHcaMax":1,"selectors":{"ifNames":["ibs1"]}"#);
    let mut inventory = node(0);
    inventory.devices[0].files.truncate(1);
    assert_eq!(advertise(&text, &inventory).0[0].devices.len(), 1);
    inventory.devices[0].files.clear();
    let (none, problems) = advertise(&text, &inventory);
    assert!(none[0].devices.is_empty() && problems[0].contains("uverbs"), "{problems:?}");
}

#[test]
fn c99_exclusive_mode_offers_nothing_shared_and_says_so() {
    let mut inventory = node(0);
    inventory.exclusive = Some(true);
    let (none, problems) = advertise(&one_shared(r#""rdmaHcaMax":1,"devices":["ibs1"]"#), &inventory);
    assert!(none[0].devices.is_empty() && problems[0].contains("exclusive mode"), "{problems:?}");
    let (whole, problems) =
        build_advertised_pools(&[jarvice_pool()], &inventory, &BTreeSet::new(), &|_| true);
    assert!(whole[0].devices.is_empty() && problems.len() == 1);
}

#[test]
fn shared_pools_leave_out_what_an_sriov_pool_has() {
    let text = r#"{"resourceList":[{"resourceName":"v","selectors":{"pfNames":["ibs1#0-1"],"isRdma":true}}],
        "configList":[{"resourceName":"s","rdmaHcaMax":1,"selectors":{"vendors":["15b3"]}}]}"#;
    let mut pools = parse_config(text).pools;
    pools.push(jarvice_pool());
    let (shares, _) = build_advertised_pools(&pools, &node(4), &BTreeSet::new(), &|_| true);
    let files = |index: usize| -> Vec<String> {
        let names = shares[index].files.iter().filter_map(|file| file.path.file_name());
        names.map(|name| name.to_string_lossy().into_owned()).collect()
    };
    assert_eq!(device_ids(&shares[0]), [vf_address(0), vf_address(1)]);
    for index in [1, 2] {
        let mut files = files(index);
        files.sort();
        assert_eq!(files, ["uverbs0", "uverbs1", "uverbs4", "uverbs5"]);
    }
    // The SR-IOV pool goes from the files while a pod holds one of its functions.
    let (shares, _) =
        build_advertised_pools(&pools[1..], &node(4), &BTreeSet::from([vf_address(0)]), &|_| true);
    let has = |name: &str| shares[0].files.iter().any(|file| file.path.ends_with(name));
    assert!(!has("uverbs2") && has("uverbs3"));
}

#[test]
fn files_are_read_in_folders_and_a_broken_one_counts_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let defaults = PoolDefaults { prefix: "a.b".to_owned() };
    let sources = PoolSources {
        paths: vec![folder.path().to_owned()],
        node: "n1".to_owned(),
        defaults,
        pools: Vec::new(),
        policies: None,
    };
    let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let pool = |name: &str| format!(r#"{{"resourceList":[{{"resourceName":"{name}"}}]}}"#);
    let mut memory = Default::default();
    let mut names = |sources: &PoolSources| -> (Vec<String>, usize) {
        let now = sources.read(&mut memory);
        assert!(now.pools.iter().all(|pool| matches!(pool.kind, DevicePoolKind::Functions(_))));
        (now.pools.iter().map(|pool| pool.resource.to_string()).collect(), now.problems.len())
    };
    put("a.json", &pool("one"));
    put("b.json", &pool("two"));
    put("notes.txt", "not ours");
    assert_eq!(names(&sources), (vec!["a.b/one".to_owned(), "a.b/two".to_owned()], 0));
    put("a.json", "{");
    assert_eq!(names(&sources), (vec!["a.b/one".to_owned(), "a.b/two".to_owned()], 1));
    put("b.json", &pool("three"));
    assert_eq!(names(&sources), (vec!["a.b/one".to_owned(), "a.b/three".to_owned()], 1));
    // The operator's ConfigMap has a key for each node.
    put("n1", &pool("mine"));
    put("n2", &pool("yours"));
    assert_eq!(names(&sources), (vec!["a.b/mine".to_owned()], 0));
    fs::remove_file(folder.path().join("n1")).unwrap();
    let missing = PoolSources { paths: vec![folder.path().join("none.json")], ..sources };
    assert_eq!(names(&missing), (vec![], 1));
}

#[tokio::test]
async fn a_change_of_a_file_is_seen_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.json");
    let defaults = PoolDefaults { prefix: "a.b".to_owned() };
    let sources = PoolSources {
        paths: vec![path.clone()],
        node: String::new(),
        defaults,
        pools: Vec::new(),
        policies: None,
    };
    let (sender, mut seen) = tokio::sync::watch::channel(Arc::default());
    let stop = tokio_util::sync::CancellationToken::new();
    let reading = tokio::spawn(super::watch_pool_config(sources, sender, stop.clone()));
    fs::write(&path, r#"{"resourceList":[{"resourceName":"one"}]}"#).unwrap();
    let soon = Duration::from_secs(1);
    let has = |count| move |now: &Arc<super::PoolConfig>| now.pools.len() == count;
    tokio::time::timeout(soon, seen.wait_for(has(1))).await.expect("within a second").unwrap();
    let next = folder.path().join(".next");
    fs::write(&next, r#"{"resourceList":[{"resourceName":"one"},{"resourceName":"two"}]}"#).unwrap();
    fs::rename(next, &path).unwrap();
    tokio::time::timeout(soon, seen.wait_for(has(2))).await.expect("within a second").unwrap();
    stop.cancel();
    reading.await.unwrap().unwrap();
}
