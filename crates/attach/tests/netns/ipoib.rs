//! The `ipoib` plugin, called on its own.

use crate::fixture::{AttachFixture, PodNetnsFixture, host_ip, link_names, wait_until};
use crate::meta_plugin::assigned_addresses;
use crate::scripted_daemon::{ScriptedDaemon, ScriptedDaemonState};
use ferroband_attach::{ConfigError, Error, PluginType};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;

const NET1: (&str, &str) = ("c1", "net1");

pub fn config(version: &str, more: Value) -> Value {
    let mut config = json!({"cniVersion": version, "name": "n", "type": "ipoib", "master": "ib0"});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    config
}

pub fn run(
    fixture: &AttachFixture,
    command: &str,
    pod: &PodNetnsFixture,
    config: &Value,
) -> Result<Value, Error> {
    fixture.run(PluginType::Ipoib, command, NET1, &pod.path, config)
}

// Case: cni 9, cni 27
#[test]
fn add_without_ipam_creates_an_interface_without_addresses() {
    let (fixture, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    for (version, dns) in [("1.1.0", None), ("0.4.0", Some(json!({})))] {
        let config = config(version, json!({"ipam": {}}));
        let result = run(&fixture, "ADD", &pod, &config).unwrap();
        assert_eq!((result.get("ips"), result.get("dns")), (None, dns.as_ref()), "{version}");
        let net1 = pod.interface("net1");
        assert!(net1["flags"].as_array().unwrap().contains(&json!("UP")));
        assert_eq!(result["interfaces"][0]["mac"], net1["address"]);
        assert_eq!(result["interfaces"][0]["sandbox"], json!(pod.path));
        assert_eq!(pod.addresses("net1"), [""; 0]);
        run(&fixture, "DEL", &pod, &config).unwrap();
        assert_eq!(pod.link_names(), [""; 0]);
        fixture.assert_clean();
    }
}

// Case: cni 10
#[test]
fn add_without_ipam_fails_before_any_change_with_versions_before_0_3_0() {
    let (fixture, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    for version in ["0.1.0", "0.2.0"] {
        let error = run(&fixture, "ADD", &pod, &config(version, json!({}))).unwrap_err();
        assert!(matches!(error, Error::ResultNeedsAddress { .. }), "{error}");
        fixture.assert_clean();
    }
}

// Case: cni 12
#[test]
fn add_fails_cleanly_when_the_ipam_plugin_is_missing() {
    let (fixture, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    let config = config("1.0.0", json!({"ipam": {"type": "absent"}}));
    let error = run(&fixture, "ADD", &pod, &config).unwrap_err();
    assert_eq!(error.fault().code.reason(), "NoPlugin");
    assert_eq!(pod.link_names(), [""; 0]);
}

// Case: cni 13
#[test]
fn add_fails_and_calls_ipam_del_when_ipam_returns_no_address() {
    let (fixture, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    fixture.install_plugin("empty", "[ $CNI_COMMAND = ADD ] && echo '{\"cniVersion\":\"1.0.0\"}'; exit 0");
    let config = config("1.0.0", json!({"ipam": {"type": "empty"}}));
    let error = run(&fixture, "ADD", &pod, &config).unwrap_err();
    assert!(error.to_string().contains("returned no address"), "{error}");
    assert_eq!(fixture.take_log(), ["ADD empty net1", "DEL empty net1"]);
    assert_eq!(pod.link_names(), [""; 0]);
    fixture.assert_clean();
}

// Case: cni 17
#[test]
fn add_and_check_fail_without_a_master_and_del_succeeds() {
    let (fixture, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    let config = json!({"cniVersion": "1.0.0", "name": "n", "type": "ipoib"});
    for command in ["ADD", "CHECK"] {
        let error = run(&fixture, command, &pod, &config).unwrap_err();
        assert!(matches!(error, Error::Config(ConfigError::NoMaster)), "{command}: {error}");
    }
    run(&fixture, "DEL", &pod, &config).unwrap();
    fixture.assert_clean();
}

// Case: cni 18
#[test]
fn add_fails_when_master_is_missing_or_not_ipoib() {
    let (fixture, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    host_ip(&["link", "add", "eth7", "type", "veth", "peer", "name", "eth8"]);
    for (master, reason, named) in [("ib9", "NoParent", "ib9"), ("eth7", "NotIpoib", "veth")] {
        let error = run(&fixture, "ADD", &pod, &config("1.0.0", json!({"master": master}))).unwrap_err();
        assert_eq!(error.fault().code.reason(), reason);
        assert!(error.fault().to_string().contains(named), "{}", error.fault());
    }
    host_ip(&["link", "delete", "eth7"]);
    assert_eq!(pod.link_names(), [""; 0]);
    fixture.assert_clean();
}

#[test]
fn the_master_may_be_an_altname() {
    let (fixture, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    host_ip(&["link", "property", "add", "dev", "ib0", "altname", "ibs5f0"]);
    run(&fixture, "ADD", &pod, &config("1.0.0", json!({"master": "ibs5f0"}))).unwrap();
    assert_eq!(pod.link_names(), ["net1"]);
}

// Case: cni 22, cni 23
#[test]
fn the_mtu_is_set_and_a_rejected_mtu_leaves_nothing() {
    let (fixture, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    let set = config("1.1.0", json!({"mtu": 1400}));
    assert_eq!(run(&fixture, "ADD", &pod, &set).unwrap()["interfaces"][0]["mtu"], 1400);
    assert_eq!(pod.interface("net1")["mtu"], 1400);
    run(&fixture, "DEL", &pod, &set).unwrap();
    let error = run(&fixture, "ADD", &pod, &config("1.1.0", json!({"mtu": 1_000_000}))).unwrap_err();
    assert_eq!(error.fault().code.reason(), "KernelRefused");
    assert_eq!(pod.link_names(), [""; 0]);
    fixture.assert_clean();
}

// Case: cni 24
#[test]
fn add_fails_cleanly_when_proxy_arp_cannot_be_written() {
    let (fixture, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    let boot = fixture.path("proc/sys/kernel/random/boot_id");
    let id = fs::read(&boot).unwrap();
    fs::remove_file(fixture.path("proc")).unwrap();
    fs::create_dir_all(boot.parent().unwrap()).unwrap();
    fs::write(&boot, id).unwrap();
    let error = run(&fixture, "ADD", &pod, &config("1.0.0", json!({}))).unwrap_err();
    assert!(error.to_string().contains("proxy_arp"), "{error}");
    assert_eq!(pod.link_names(), [""; 0]);
    fixture.assert_clean();

    fs::remove_dir_all(fixture.path("proc")).unwrap();
    symlink("/proc", fixture.path("proc")).unwrap();
    run(&fixture, "ADD", &pod, &config("1.0.0", json!({}))).unwrap();
    let arp =
        pod.netns.as_ref().unwrap().run(|| fs::read_to_string("/proc/sys/net/ipv4/conf/net1/proxy_arp"));
    assert_eq!(arp.unwrap().unwrap().trim(), "1");
}

// Case: cni 24
#[test]
fn add_fails_cleanly_when_the_name_is_taken_during_the_call() {
    let (fixture, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    let path = pod.path.clone();
    *fixture.fabric.on_child_created.lock().unwrap() = Some(Box::new(move |_| {
        let netns = ferroband_kernel::Netns::open(&path).unwrap();
        netns.run(|| host_ip(&["link", "add", "net1", "type", "bridge"])).unwrap();
    }));
    let error = run(&fixture, "ADD", &pod, &config("1.0.0", json!({}))).unwrap_err();
    assert_eq!(error.fault().code.reason(), "NameTaken");
    assert_eq!(pod.link_names(), ["net1"]);
    run(&fixture, "DEL", &pod, &config("1.0.0", json!({}))).unwrap();
    assert_eq!(pod.link_names(), ["net1"], "not created by the plugin");
    fixture.assert_clean();
}

// Case: cni 25
#[test]
fn add_fails_cleanly_when_the_child_cannot_be_moved() {
    let (mut fixture, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    fixture.fabric.immovable = true;
    let error = run(&fixture, "ADD", &pod, &config("1.0.0", json!({}))).unwrap_err();
    assert_eq!(error.fault().code.reason(), "KernelRefused");
    assert!(error.to_string().contains("set network namespace"), "{error}");
    fixture.assert_clean();
}

// Case: cni 26
#[test]
fn dhcp_is_rejected_before_anything_is_created() {
    let (fixture, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    let dhcp = config("1.0.0", json!({"ipam": {"type": "dhcp"}}));
    assert!(matches!(run(&fixture, "ADD", &pod, &dhcp), Err(Error::Config(ConfigError::Dhcp))));
    fixture.assert_clean();
    run(&fixture, "ADD", &pod, &config("1.0.0", json!({}))).unwrap();
    run(&fixture, "DEL", &pod, &dhcp).unwrap();
    assert_eq!(pod.link_names(), [""; 0]);
}

// Case: cni 28
#[test]
fn addresses_routes_and_gateways_of_ipam_are_configured_and_dns_is_the_configurations() {
    let (fixture, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    let ipam_result = json!({
        "cniVersion": "1.0.0",
        "ips": [{"address": "10.3.0.5/24", "gateway": "10.3.0.1"}],
        "routes": [{"dst": "10.4.0.0/16"}, {"dst": "10.5.0.0/16", "gw": "10.3.0.9"}],
        "dns": {"domain": "of-ipam"},
    });
    fixture.install_plugin(
        "ipam",
        &format!("echo \"$IN\" > $LOG.in; [ $CNI_COMMAND = ADD ] && echo '{ipam_result}'; exit 0"),
    );
    let config =
        config("1.0.0", json!({"ipam": {"type": "ipam", "odd": 1.5}, "dns": {"domain": "of-config"}}));
    let result = run(&fixture, "ADD", &pod, &config).unwrap();
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
    let stdin = fs::read_to_string(fixture.path("log.in")).unwrap();
    assert_eq!(stdin.trim_end(), config.to_string(), "the IPAM plugin gets the original bytes");
    run(&fixture, "DEL", &pod, &config).unwrap();
    assert_eq!(fixture.take_log(), ["ADD ipam net1", "DEL ipam net1"]);
}

// Case: cni 28
#[test]
fn a_route_that_the_kernel_rejects_rolls_back_the_add() {
    let (fixture, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    let ipam_result =
        json!({"ips": [{"address": "10.3.0.5/24"}], "routes": [{"dst": "10.4.0.0/16", "gw": "10.99.0.1"}]});
    fixture.install_plugin("ipam", &format!("[ $CNI_COMMAND = ADD ] && echo '{ipam_result}'; exit 0"));
    let config = config("1.0.0", json!({"ipam": {"type": "ipam"}}));
    let error = run(&fixture, "ADD", &pod, &config).unwrap_err();
    assert_eq!(error.fault().code.reason(), "KernelRefused");
    assert_eq!(fixture.take_log(), ["ADD ipam net1", "DEL ipam net1"]);
    assert_eq!(pod.link_names(), [""; 0]);
    fixture.assert_clean();
}

// Case: cni 29
#[test]
fn del_succeeds_twice_without_a_namespace() {
    for missing in [false, true] {
        let (fixture, mut pod) = (AttachFixture::new(), PodNetnsFixture::new());
        fixture.install_leasing_plugin("lease", "10.9.0.7/24");
        let config = config("1.0.0", json!({"ipam": {"type": "lease"}}));
        run(&fixture, "ADD", &pod, &config).unwrap();
        pod.delete_netns();
        let netns = if missing { pod.path.clone() } else { String::new() };
        for _ in 0..2 {
            fixture.run(PluginType::Ipoib, "DEL", NET1, &netns, &config).unwrap();
        }
        wait_until(|| link_names(&host_ip(&["link", "show"])).len() == 2);
        fixture.assert_clean();
    }
}

// Case: cni 31
#[test]
fn del_removes_a_child_that_returned_to_the_host_but_no_foreign_interface() {
    let (fixture, mut pod) = (AttachFixture::new(), PodNetnsFixture::new());
    let config = config("1.0.0", json!({}));
    run(&fixture, "ADD", &pod, &config).unwrap();
    // When a namespace is deleted, the kernel deletes its veths but returns its IPoIB children to the host.
    // The simulated child is a veth, so the test moves it to the host itself.
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
    fixture.run(PluginType::Ipoib, "DEL", NET1, &path, &config).unwrap();
    let mut left = link_names(&host_ip(&["link", "show"]));
    left.sort();
    assert_eq!(left, ["ib0", "lo", "net1", "stranger"]);
}

// Case: cni 33
#[test]
fn a_child_whose_ifindex_is_taken_in_the_pod_gets_another_one() {
    let (fixture, pod) = (AttachFixture::new(), PodNetnsFixture::new());
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
    let result = run(&fixture, "ADD", &pod, &config("1.0.0", json!({}))).unwrap();
    let (net1, mut after) = (pod.interface("net1"), pod.link_names());
    assert!(net1["ifindex"].as_u64().unwrap() >= 20, "{net1}");
    assert_eq!(result["interfaces"][0]["mac"], net1["address"]);
    after.retain(|name| name != "net1");
    assert_eq!(after, before);
    run(&fixture, "DEL", &pod, &config("1.0.0", json!({}))).unwrap();
    assert_eq!(pod.link_names(), before);
}

// Case: cni 32
#[test]
fn check_compares_prev_result_addresses_and_routes() {
    let (fixture, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    let ipam_result =
        json!({"ips": [{"address": "10.3.0.5/24"}], "routes": [{"dst": "10.4.0.0/16", "gw": "10.3.0.1"}]});
    fixture.install_plugin("ipam", &format!("[ $CNI_COMMAND = ADD ] && echo '{ipam_result}'; exit 0"));
    let mut config = config("1.0.0", json!({"ipam": {"type": "ipam"}}));
    let previous = run(&fixture, "ADD", &pod, &config).unwrap();
    assert!(matches!(run(&fixture, "CHECK", &pod, &config), Err(Error::NoPreviousResult)));
    config["prevResult"] = previous;
    assert_eq!(run(&fixture, "CHECK", &pod, &config).unwrap(), Value::Null);
    let mut elsewhere = config.clone();
    elsewhere["prevResult"]["interfaces"][0]["sandbox"] = json!("/somewhere/else");
    assert!(run(&fixture, "CHECK", &pod, &elsewhere).is_err());
    pod.ip(&["route", "delete", "10.4.0.0/16"]);
    assert!(run(&fixture, "CHECK", &pod, &config).unwrap_err().to_string().contains("10.4.0.0/16"));
    pod.ip(&["address", "delete", "10.3.0.5/24", "dev", "net1"]);
    assert!(run(&fixture, "CHECK", &pod, &config).unwrap_err().to_string().contains("10.3.0.5/24"));
    assert_eq!(fixture.take_log(), ["ADD ipam net1", "CHECK ipam net1"]);
}

#[test]
fn the_daemon_assigns_addresses_for_ipam_type_whereabouts() {
    let (fixture, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    let config = config("0.3.1", json!({"ipam": {"type": "whereabouts", "range": "192.168.0.0/24"}}));
    let error = run(&fixture, "ADD", &pod, &config).unwrap_err();
    assert_eq!(error.code(), 11);
    fixture.assert_clean();
    assert_eq!(fixture.pending_releases(), [""; 0]);

    let state = ScriptedDaemonState {
        assigned: vec![assigned_addresses(0, "192.168.0.5/24")],
        ..ScriptedDaemonState::default()
    };
    let daemon = ScriptedDaemon::start(&fixture.root, state);
    let result = run(&fixture, "ADD", &pod, &config).unwrap();
    assert_eq!(result["ips"][0], json!({"address": "192.168.0.5/24", "interface": 0, "version": "4"}));
    assert_eq!(
        (pod.addresses("net1"), daemon.held_containers()),
        (vec!["192.168.0.5/24".to_owned()], vec!["c1/net1".to_owned()])
    );
    run(&fixture, "DEL", &pod, &config).unwrap();
    assert_eq!((daemon.take_requests(), daemon.held_containers()), (vec!["Assign", "Release"], vec![]));
    fixture.assert_clean();
}

#[test]
fn two_interfaces_of_one_container_are_independent() {
    let (fixture, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    let config = config("1.0.0", json!({}));
    let run = |command, ifname| {
        fixture.run(PluginType::Ipoib, command, ("c1", ifname), &pod.path, &config).unwrap()
    };
    run("ADD", "net1");
    run("ADD", "net2");
    assert_eq!(fixture.journals(), ["c1:net1:ipoib.json", "c1:net2:ipoib.json"]);
    run("DEL", "net1");
    assert_eq!(
        (pod.link_names(), fixture.journals()),
        (vec!["net2".to_owned()], vec!["c1:net2:ipoib.json".to_owned()])
    );
    run("DEL", "net2");
    assert_eq!(pod.link_names(), [""; 0]);
    fixture.assert_clean();
}

// Case: cni 34
#[test]
fn parallel_calls_on_one_master_succeed() {
    let fixture = AttachFixture::new();
    let config = config("1.0.0", json!({}));
    let pods: Vec<_> = (0..24).map(|number| (format!("c{number}"), PodNetnsFixture::new())).collect();
    for command in ["ADD", "DEL"] {
        // Threads inherit the network namespace of the thread that spawns them.
        std::thread::scope(|scope| {
            for (container, pod) in &pods {
                let (fixture, config) = (&fixture, &config);
                let run = || {
                    fixture.run(PluginType::Ipoib, command, (container, "net1"), &pod.path, config).unwrap()
                };
                scope.spawn(run);
            }
        });
        let expected: &[&str] = if command == "ADD" { &["net1"] } else { &[] };
        assert!(pods.iter().all(|(_, pod)| pod.link_names() == expected), "{command}");
    }
    fixture.assert_clean();
}

#[test]
fn del_without_a_journal_keeps_interfaces_of_other_kinds_and_calls_ipam() {
    let (fixture, pod) = (AttachFixture::new(), PodNetnsFixture::new());
    fixture.install_leasing_plugin("lease", "10.9.0.7/24");
    // Without a journal, DEL must keep an interface of another kind but must call the IPAM plugin.
    pod.ip(&["link", "add", "net1", "type", "veth", "peer", "name", "x"]);
    run(&fixture, "DEL", &pod, &config("1.0.0", json!({"ipam": {"type": "lease"}}))).unwrap();
    assert_eq!((pod.link_names().len(), fixture.take_log()), (2, vec!["DEL lease net1".to_owned()]));
}
