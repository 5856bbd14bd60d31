//! The `ipoib` plugin, called by somebody else.

use crate::daemon::{ScriptedDaemon, ScriptedDaemonState};
use crate::meta::assigned_addresses;
use crate::stage::{AttachFixture, PodNetnsFixture, host_ip, link_names, wait_until};
use ferroband_attach::{Error, PluginType};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;

const NET1: (&str, &str) = ("c1", "net1");

fn config(version: &str, more: Value) -> Value {
    let mut config = json!({"cniVersion": version, "name": "n", "type": "ipoib", "master": "ib0"});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    config
}

fn run(stage: &AttachFixture, command: &str, pod: &PodNetnsFixture, config: &Value) -> Result<Value, Error> {
    stage.run(PluginType::Ipoib, command, NET1, &pod.path, config)
}

#[test]
fn case_9_and_27_without_ipam() {
    let (stage, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    for (version, dns) in [("1.1.0", None), ("0.4.0", Some(json!({})))] {
        let config = config(version, json!({"ipam": {}}));
        let result = run(&stage, "ADD", &pod, &config).unwrap();
        assert_eq!((result.get("ips"), result.get("dns")), (None, dns.as_ref()), "{version}");
        let net1 = pod.interface("net1");
        assert!(net1["flags"].as_array().unwrap().contains(&json!("UP")));
        assert_eq!(result["interfaces"][0]["mac"], net1["address"]);
        assert_eq!(result["interfaces"][0]["sandbox"], json!(pod.path));
        assert_eq!(pod.addresses("net1"), [""; 0]);
        run(&stage, "DEL", &pod, &config).unwrap();
        assert_eq!(pod.link_names(), [""; 0]);
        stage.assert_clean();
    }
}

#[test]
fn case_10_without_ipam_and_with_an_old_version_nothing_is_touched() {
    let (stage, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    for version in ["0.1.0", "0.2.0"] {
        let error = run(&stage, "ADD", &pod, &config(version, json!({}))).unwrap_err();
        assert!(matches!(error, Error::ResultNeedsAddress { .. }), "{error}");
        stage.assert_clean();
    }
}

#[test]
fn case_12_the_ipam_plugin_is_missing() {
    let (stage, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    let config = config("1.0.0", json!({"ipam": {"type": "absent"}}));
    let error = run(&stage, "ADD", &pod, &config).unwrap_err();
    assert_eq!(error.fault().code.reason(), "NoPlugin");
    assert_eq!(pod.link_names(), [""; 0]);
}

#[test]
fn case_13_the_ipam_plugin_gives_no_address() {
    let (stage, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    stage.install_plugin("empty", "[ $CNI_COMMAND = ADD ] && echo '{\"cniVersion\":\"1.0.0\"}'; exit 0");
    let config = config("1.0.0", json!({"ipam": {"type": "empty"}}));
    let error = run(&stage, "ADD", &pod, &config).unwrap_err();
    assert!(error.to_string().contains("gave no address"), "{error}");
    assert_eq!(stage.take_log(), ["ADD empty net1", "DEL empty net1"]);
    assert_eq!(pod.link_names(), [""; 0]);
    stage.assert_clean();
}

#[test]
fn case_17_without_a_master() {
    let (stage, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    let config = json!({"cniVersion": "1.0.0", "name": "n", "type": "ipoib"});
    for command in ["ADD", "CHECK"] {
        let error = run(&stage, command, &pod, &config).unwrap_err();
        assert!(matches!(error, Error::NoMaster), "{command}: {error}");
    }
    run(&stage, "DEL", &pod, &config).unwrap();
    stage.assert_clean();
}

#[test]
fn case_18_the_master_is_absent_or_something_else() {
    let (stage, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    host_ip(&["link", "add", "eth7", "type", "veth", "peer", "name", "eth8"]);
    for (master, reason, named) in [("ib9", "NoParent", "ib9"), ("eth7", "NotIpoib", "veth")] {
        let error = run(&stage, "ADD", &pod, &config("1.0.0", json!({"master": master}))).unwrap_err();
        assert_eq!(error.fault().code.reason(), reason);
        assert!(error.fault().to_string().contains(named), "{}", error.fault());
    }
    host_ip(&["link", "delete", "eth7"]);
    assert_eq!(pod.link_names(), [""; 0]);
    stage.assert_clean();
}

#[test]
fn the_master_may_be_an_alternative_name() {
    let (stage, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    host_ip(&["link", "property", "add", "dev", "ib0", "altname", "ibs5f0"]);
    run(&stage, "ADD", &pod, &config("1.0.0", json!({"master": "ibs5f0"}))).unwrap();
    assert_eq!(pod.link_names(), ["net1"]);
}

#[test]
fn case_22_and_23_the_mtu_is_set_and_a_refused_one_leaves_nothing() {
    let (stage, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    let set = config("1.1.0", json!({"mtu": 1400}));
    assert_eq!(run(&stage, "ADD", &pod, &set).unwrap()["interfaces"][0]["mtu"], 1400);
    assert_eq!(pod.interface("net1")["mtu"], 1400);
    run(&stage, "DEL", &pod, &set).unwrap();
    let error = run(&stage, "ADD", &pod, &config("1.1.0", json!({"mtu": 1_000_000}))).unwrap_err();
    assert_eq!(error.fault().code.reason(), "KernelRefused");
    assert_eq!(pod.link_names(), [""; 0]);
    stage.assert_clean();
}

#[test]
fn case_24_proxy_arp_cannot_be_written() {
    let (stage, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    let boot = stage.path("proc/sys/kernel/random/boot_id");
    let id = fs::read(&boot).unwrap();
    fs::remove_file(stage.path("proc")).unwrap();
    fs::create_dir_all(boot.parent().unwrap()).unwrap();
    fs::write(&boot, id).unwrap();
    let error = run(&stage, "ADD", &pod, &config("1.0.0", json!({}))).unwrap_err();
    assert!(error.to_string().contains("proxy_arp"), "{error}");
    assert_eq!(pod.link_names(), [""; 0]);
    stage.assert_clean();

    fs::remove_dir_all(stage.path("proc")).unwrap();
    symlink("/proc", stage.path("proc")).unwrap();
    run(&stage, "ADD", &pod, &config("1.0.0", json!({}))).unwrap();
    let arp =
        pod.netns.as_ref().unwrap().run(|| fs::read_to_string("/proc/sys/net/ipv4/conf/net1/proxy_arp"));
    assert_eq!(arp.unwrap().unwrap().trim(), "1");
}

#[test]
fn case_24_the_name_is_taken_at_the_last_moment() {
    let (stage, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    let path = pod.path.clone();
    *stage.fabric.on_child_created.lock().unwrap() = Some(Box::new(move |_| {
        let netns = ferroband_kernel::Netns::open(&path).unwrap();
        netns.run(|| host_ip(&["link", "add", "net1", "type", "bridge"])).unwrap();
    }));
    let error = run(&stage, "ADD", &pod, &config("1.0.0", json!({}))).unwrap_err();
    assert_eq!(error.fault().code.reason(), "NameTaken");
    assert_eq!(pod.link_names(), ["net1"]);
    run(&stage, "DEL", &pod, &config("1.0.0", json!({}))).unwrap();
    assert_eq!(pod.link_names(), ["net1"], "somebody else's");
    stage.assert_clean();
}

#[test]
fn case_25_the_child_cannot_be_moved() {
    let (mut stage, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    stage.fabric.immovable = true;
    let error = run(&stage, "ADD", &pod, &config("1.0.0", json!({}))).unwrap_err();
    assert_eq!(error.fault().code.reason(), "KernelRefused");
    assert!(error.to_string().contains("move"), "{error}");
    stage.assert_clean();
}

#[test]
fn case_26_dhcp_is_refused_before_anything_is_made() {
    let (stage, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    let dhcp = config("1.0.0", json!({"ipam": {"type": "dhcp"}}));
    assert!(matches!(run(&stage, "ADD", &pod, &dhcp), Err(Error::Dhcp)));
    stage.assert_clean();
    run(&stage, "ADD", &pod, &config("1.0.0", json!({}))).unwrap();
    run(&stage, "DEL", &pod, &dhcp).unwrap();
    assert_eq!(pod.link_names(), [""; 0]);
}

#[test]
fn case_28_address_route_gateway_and_name_service() {
    let (stage, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    let given = json!({
        "cniVersion": "1.0.0",
        "ips": [{"address": "10.3.0.5/24", "gateway": "10.3.0.1"}],
        "routes": [{"dst": "10.4.0.0/16"}, {"dst": "10.5.0.0/16", "gw": "10.3.0.9"}],
        "dns": {"domain": "of-ipam"},
    });
    stage.install_plugin(
        "ipam",
        &format!("echo \"$IN\" > $LOG.in; [ $CNI_COMMAND = ADD ] && echo '{given}'; exit 0"),
    );
    let config =
        config("1.0.0", json!({"ipam": {"type": "ipam", "odd": 1.5}, "dns": {"domain": "of-config"}}));
    let result = run(&stage, "ADD", &pod, &config).unwrap();
    assert_eq!(result["ips"], json!([{"address": "10.3.0.5/24", "gateway": "10.3.0.1", "interface": 0}]));
    assert_eq!(result["dns"], json!({"domain": "of-config"}));
    assert_eq!(pod.addresses("net1"), ["10.3.0.5/24"]);
    let routes = pod.ip(&["route", "show", "dev", "net1"]);
    let gateway = |dst: &str| {
        let route = routes.as_array().unwrap().iter().find(|route| route["dst"] == dst);
        route.map(|route| route["gateway"].as_str().unwrap().to_owned())
    };
    assert_eq!(gateway("10.4.0.0/16").as_deref(), Some("10.3.0.1"));
    assert_eq!(gateway("10.5.0.0/16").as_deref(), Some("10.3.0.9"));
    let seen = fs::read_to_string(stage.path("log.in")).unwrap();
    assert_eq!(seen.trim_end(), config.to_string(), "the plugin gets the bytes that we got");
    run(&stage, "DEL", &pod, &config).unwrap();
    assert_eq!(stage.take_log(), ["ADD ipam net1", "DEL ipam net1"]);
}

#[test]
fn case_28_a_route_that_the_kernel_refuses_undoes_all() {
    let (stage, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    let given =
        json!({"ips": [{"address": "10.3.0.5/24"}], "routes": [{"dst": "10.4.0.0/16", "gw": "10.99.0.1"}]});
    stage.install_plugin("ipam", &format!("[ $CNI_COMMAND = ADD ] && echo '{given}'; exit 0"));
    let config = config("1.0.0", json!({"ipam": {"type": "ipam"}}));
    let error = run(&stage, "ADD", &pod, &config).unwrap_err();
    assert_eq!(error.fault().code.reason(), "KernelRefused");
    assert_eq!(stage.take_log(), ["ADD ipam net1", "DEL ipam net1"]);
    assert_eq!(pod.link_names(), [""; 0]);
    stage.assert_clean();
}

#[test]
fn case_29_del_without_namespace_and_twice() {
    for missing in [false, true] {
        let (stage, mut pod) = (AttachFixture::new(), PodNetnsFixture::new());
        stage.install_leasing_plugin("lease", "10.9.0.7/24");
        let config = config("1.0.0", json!({"ipam": {"type": "lease"}}));
        run(&stage, "ADD", &pod, &config).unwrap();
        pod.delete_netns();
        let netns = if missing { pod.path.clone() } else { String::new() };
        for _ in 0..2 {
            stage.run(PluginType::Ipoib, "DEL", NET1, &netns, &config).unwrap();
        }
        wait_until(|| link_names(&host_ip(&["link", "show"])).len() == 2);
        stage.assert_clean();
    }
}

#[test]
fn case_31_a_child_that_came_back_to_the_host_is_found_and_a_stranger_is_not() {
    let (stage, mut pod) = (AttachFixture::new(), PodNetnsFixture::new());
    let config = config("1.0.0", json!({}));
    run(&stage, "ADD", &pod, &config).unwrap();
    // A veth would go with its namespace; an IPoIB child is handed back. So hand it back.
    let own = format!("/proc/{}/task/{}/ns/net", nix::unistd::getpid(), nix::unistd::gettid());
    let own = ferroband_kernel::Netns::open(own).unwrap();
    let mut inside = ferroband_kernel::RouteSocket::open_in(pod.netns.as_ref().unwrap()).unwrap();
    let index = inside.link("net1").unwrap().unwrap().index;
    inside.rename_link(index, "dev42").unwrap();
    inside.move_link(index, &own).unwrap();
    drop(inside);
    host_ip(&["link", "add", "net1", "type", "veth", "peer", "name", "stranger"]);
    let path = pod.path.clone();
    pod.delete_netns();
    stage.run(PluginType::Ipoib, "DEL", NET1, &path, &config).unwrap();
    let mut left = link_names(&host_ip(&["link", "show"]));
    left.sort();
    assert_eq!(left, ["ib0", "lo", "net1", "stranger"]);
}

#[test]
fn case_33_an_index_that_is_taken_in_the_pod() {
    let (stage, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    for index in (2..20).step_by(2) {
        let (left, right) = (format!("a{index}"), format!("b{index}"));
        let numbers = [index.to_string(), (index + 1).to_string()];
        pod.ip(&[
            "link",
            "add",
            &left,
            "index",
            &numbers[0],
            "type",
            "veth",
            "peer",
            "name",
            &right,
            "index",
            &numbers[1],
        ]);
    }
    let before = pod.link_names();
    let result = run(&stage, "ADD", &pod, &config("1.0.0", json!({}))).unwrap();
    let (net1, mut after) = (pod.interface("net1"), pod.link_names());
    assert!(net1["ifindex"].as_u64().unwrap() >= 20, "{net1}");
    assert_eq!(result["interfaces"][0]["mac"], net1["address"]);
    after.retain(|name| name != "net1");
    assert_eq!(after, before);
    run(&stage, "DEL", &pod, &config("1.0.0", json!({}))).unwrap();
    assert_eq!(pod.link_names(), before);
}

#[test]
fn case_32_check() {
    let (stage, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    let given =
        json!({"ips": [{"address": "10.3.0.5/24"}], "routes": [{"dst": "10.4.0.0/16", "gw": "10.3.0.1"}]});
    stage.install_plugin("ipam", &format!("[ $CNI_COMMAND = ADD ] && echo '{given}'; exit 0"));
    let mut config = config("1.0.0", json!({"ipam": {"type": "ipam"}}));
    let previous = run(&stage, "ADD", &pod, &config).unwrap();
    assert!(matches!(run(&stage, "CHECK", &pod, &config), Err(Error::NoPreviousResult)));
    config["prevResult"] = previous;
    assert_eq!(run(&stage, "CHECK", &pod, &config).unwrap(), Value::Null);
    let mut elsewhere = config.clone();
    elsewhere["prevResult"]["interfaces"][0]["sandbox"] = json!("/somewhere/else");
    assert!(run(&stage, "CHECK", &pod, &elsewhere).is_err());
    pod.ip(&["route", "delete", "10.4.0.0/16"]);
    assert!(run(&stage, "CHECK", &pod, &config).unwrap_err().to_string().contains("10.4.0.0/16"));
    pod.ip(&["address", "delete", "10.3.0.5/24", "dev", "net1"]);
    assert!(run(&stage, "CHECK", &pod, &config).unwrap_err().to_string().contains("10.3.0.5/24"));
    assert_eq!(stage.take_log(), ["ADD ipam net1", "CHECK ipam net1"]);
}

#[test]
fn addresses_of_the_daemon_without_the_meta_plugin() {
    let (stage, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    let config = config("0.3.1", json!({"ipam": {"type": "whereabouts", "range": "192.168.0.0/24"}}));
    let error = run(&stage, "ADD", &pod, &config).unwrap_err();
    assert_eq!(error.code(), 11);
    stage.assert_clean();
    assert_eq!(stage.pending_releases(), [""; 0]);

    let ledger = ScriptedDaemonState {
        assigned: vec![assigned_addresses(0, "192.168.0.5/24")],
        ..ScriptedDaemonState::default()
    };
    let daemon = ScriptedDaemon::start(&stage.root, ledger);
    let result = run(&stage, "ADD", &pod, &config).unwrap();
    assert_eq!(result["ips"][0], json!({"address": "192.168.0.5/24", "interface": 0, "version": "4"}));
    assert_eq!(
        (pod.addresses("net1"), daemon.held_containers()),
        (vec!["192.168.0.5/24".to_owned()], vec!["c1/net1".to_owned()])
    );
    run(&stage, "DEL", &pod, &config).unwrap();
    assert_eq!((daemon.take_requests(), daemon.held_containers()), (vec!["Assign", "Release"], vec![]));
    stage.assert_clean();
}

#[test]
fn two_interfaces_of_one_container_live_and_die_apart() {
    let (stage, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    let config = config("1.0.0", json!({}));
    let run =
        |command, ifname| stage.run(PluginType::Ipoib, command, ("c1", ifname), &pod.path, &config).unwrap();
    run("ADD", "net1");
    run("ADD", "net2");
    assert_eq!(stage.journals(), ["c1:net1:ipoib.json", "c1:net2:ipoib.json"]);
    run("DEL", "net1");
    assert_eq!(
        (pod.link_names(), stage.journals()),
        (vec!["net2".to_owned()], vec!["c1:net2:ipoib.json".to_owned()])
    );
    run("DEL", "net2");
    assert_eq!(pod.link_names(), [""; 0]);
    stage.assert_clean();
}

#[test]
fn case_34_parallel_calls_on_one_master() {
    let stage = AttachFixture::new();
    let config = config("1.0.0", json!({}));
    let pods: Vec<_> = (0..24).map(|number| (format!("c{number}"), PodNetnsFixture::new())).collect();
    for command in ["ADD", "DEL"] {
        // Threads begin in the namespace of the one that starts them.
        std::thread::scope(|scope| {
            for (container, pod) in &pods {
                let (stage, config) = (&stage, &config);
                let run =
                    || stage.run(PluginType::Ipoib, command, (container, "net1"), &pod.path, config).unwrap();
                scope.spawn(run);
            }
        });
        let expected: &[&str] = if command == "ADD" { &["net1"] } else { &[] };
        assert!(pods.iter().all(|(_, pod)| pod.link_names() == expected), "{command}");
    }
    stage.assert_clean();
}

#[test]
fn what_upstreams_plugin_left_is_not_ours_to_break() {
    let (stage, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    stage.install_leasing_plugin("lease", "10.9.0.7/24");
    // No journal: an interface of another kind stays, the IPAM plugin is told.
    pod.ip(&["link", "add", "net1", "type", "veth", "peer", "name", "x"]);
    run(&stage, "DEL", &pod, &config("1.0.0", json!({"ipam": {"type": "lease"}}))).unwrap();
    assert_eq!((pod.link_names().len(), stage.take_log()), (2, vec!["DEL lease net1".to_owned()]));
}
