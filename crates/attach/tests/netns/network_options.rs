//! Per-network options of pods: default routes, devices, legacy CNI_ARGS.

use crate::fixture::{AttachFixture, PodNetnsFixture, host_ip};
use crate::meta_plugin::{ETH0, assigned_addresses, config, foreign_attachment, ipoib_attachment, set_up};
use crate::scripted_daemon::ScriptedDaemon;
use ferroband_attach::message::DaemonRequest;
use ferroband_attach::plan::{AttachmentDevice, DefaultRoute, DefaultRoutes};
use ferroband_attach::{Error, PluginType};
use serde_json::{Value, json};
use std::fs;

fn add(fixture: &AttachFixture, pod: &PodNetnsFixture) -> Result<Value, Error> {
    fixture.run(PluginType::Ferroband, "ADD", ETH0, &pod.path, &config())
}

fn del(fixture: &AttachFixture, pod: &PodNetnsFixture) -> Result<Value, Error> {
    fixture.run(PluginType::Ferroband, "DEL", ETH0, &pod.path, &config())
}

/// Install a default network that creates eth0 with two IPv4 default routes, one of them with a metric, and
/// one IPv6 default route.
fn routed_default(fixture: &AttachFixture, daemon: &ScriptedDaemon) {
    let result = json!({
        "cniVersion": "1.0.0", "interfaces": [{"name": "eth0", "sandbox": "/x"}],
        "ips": [{"address": "10.9.0.7/24", "interface": 0}],
        "routes": [{"dst": "0.0.0.0/0", "gw": "10.9.0.1"}, {"dst": "::/0", "gw": "fd09::1"}],
    });
    let script = format!(
        "run() {{ nsenter --net=$CNI_NETNS ip \"$@\"; }}\n\
         case $CNI_COMMAND in\n\
         ADD) run link add eth0 type veth peer name peer0; run link set eth0 up; run link set peer0 up\n\
              run addr add 10.9.0.7/24 dev eth0; run -6 addr add fd09::7/64 dev eth0 nodad\n\
              run route add default via 10.9.0.1; run route add default via 10.9.0.2 metric 50\n\
              run -6 route add default via fd09::1; echo '{result}';;\n\
         DEL) run link del eth0 2> /dev/null; true;; esac"
    );
    fixture.install_plugin("router", &script);
    let mut state = daemon.state.lock().unwrap();
    state.attachments[0] = foreign_attachment("cbr0", "eth0", true, "1.0.0", json!([{"type": "router"}]));
}

fn defaults(pod: &PodNetnsFixture, family: &str) -> Vec<String> {
    let routes = pod.ip(&[family, "route", "show", "default"]);
    let text = |route: &Value, key: &str| route[key].as_str().unwrap_or_default().to_owned();
    let routes = routes.as_array().unwrap().iter();
    routes.map(|route| format!("{} {}", text(route, "gateway"), text(route, "dev"))).collect()
}

// Case: cni 103
#[test]
fn the_default_route_goes_through_the_network_that_requests_it() {
    let (fixture, daemon, pod) = set_up();
    routed_default(&fixture, &daemon);
    let routes = |v4| DefaultRoutes { v4, ..DefaultRoutes::default() };
    {
        let mut state = daemon.state.lock().unwrap();
        state.attachments[0].default_routes = routes(DefaultRoute::Remove);
        state.attachments[1].default_routes = routes(DefaultRoute::Via("192.168.0.1".parse().unwrap()));
    }
    let result = add(&fixture, &pod).unwrap();
    assert_eq!(defaults(&pod, "-4"), ["192.168.0.1 net1"], "exactly one");
    assert_eq!(defaults(&pod, "-6"), ["fd09::1 eth0"], "IPv6 was not requested");
    assert_eq!(result["routes"], json!([{"dst": "::/0", "gw": "fd09::1"}]), "result for the runtime");
    let Some(DaemonRequest::Attached(outcomes)) = daemon.state.lock().unwrap().recorded.last().cloned()
    else {
        panic!()
    };
    let gateway = json!({"dst": "0.0.0.0/0", "gw": "192.168.0.1"});
    assert!(outcomes[1].result["routes"].as_array().unwrap().contains(&gateway), "{}", outcomes[1].result);
    let newer = json!({"cniVersion": "1.0.0", "name": "ferroband", "type": "ferroband"});
    fixture.run(PluginType::Ferroband, "CHECK", ETH0, &pod.path, &newer).unwrap();
    pod.ip(&["route", "del", "default"]);
    fixture.run(PluginType::Ferroband, "CHECK", ETH0, &pod.path, &newer).unwrap_err();
    del(&fixture, &pod).unwrap();
    assert_eq!(pod.link_names(), [""; 0]);
    fixture.assert_clean();
}

// Case: cni 103
#[test]
fn default_routes_can_be_removed_from_all_networks() {
    let (fixture, daemon, pod) = set_up();
    routed_default(&fixture, &daemon);
    for attachment in &mut daemon.state.lock().unwrap().attachments {
        attachment.default_routes = DefaultRoutes { v4: DefaultRoute::Remove, v6: DefaultRoute::Remove };
    }
    add(&fixture, &pod).unwrap();
    assert_eq!((defaults(&pod, "-4"), defaults(&pod, "-6")), (vec![], vec![]));
    del(&fixture, &pod).unwrap();
    fixture.assert_clean();
}

// Case: cni 103
#[test]
fn an_unreachable_gateway_rolls_back_the_add() {
    let (fixture, daemon, pod) = set_up();
    let gateway = DefaultRoute::Via("172.16.9.1".parse().unwrap());
    daemon.state.lock().unwrap().attachments[1].default_routes =
        DefaultRoutes { v4: gateway, ..DefaultRoutes::default() };
    let error = add(&fixture, &pod).unwrap_err();
    assert!(error.to_string().contains("jarvice-ipoib"), "{error}");
    assert_eq!((pod.link_names(), daemon.held_containers()), (vec![], vec![]));
    fixture.assert_clean();
}

// Case: cni 114
#[test]
fn the_device_info_file_reaches_the_plugin_and_network_status() {
    let (fixture, daemon, pod) = set_up();
    let info = json!({"type": "pci", "version": "1.1.0", "pci": {"pci-address": "0000:3b:00.2"}});
    let folder = fixture.root.run("k8s.cni.cncf.io/devinfo");
    fs::create_dir_all(folder.join("dp")).unwrap();
    fs::write(folder.join("dp/x-vf-d1-device.json"), info.to_string()).unwrap();
    let cni_file = folder.join("cni/default-vf-c1_net2");
    fixture.install_plugin(
        "vf",
        &format!(
            "[ $CNI_COMMAND = ADD ] || exit 0\ncp {} $LEASES/../seen && echo '{{\"ips\":[]}}'",
            cni_file.display()
        ),
    );
    {
        let mut state = daemon.state.lock().unwrap();
        let mut vf = foreign_attachment("vf", "net2", false, "1.0.0", json!([{"type": "vf"}]));
        vf.network = "default/vf".into();
        vf.device = Some(AttachmentDevice { resource: "x/vf".into(), id: "d1".into() });
        // A network whose device plugin wrote no device-info file. Its outcome must have no `device_info`.
        let mut other = vf.clone();
        other.ifname = "net3".into();
        other.device = Some(AttachmentDevice { resource: "x/vf".into(), id: "d2".into() });
        other.steps.clear();
        state.attachments.extend([vf, other]);
    }
    add(&fixture, &pod).unwrap();
    let copied: Value = serde_json::from_slice(&fs::read(fixture.path("seen")).unwrap()).unwrap();
    assert_eq!(copied, info, "the file must exist before the plugin runs");
    let Some(DaemonRequest::Attached(outcomes)) = daemon.state.lock().unwrap().recorded.last().cloned()
    else {
        panic!()
    };
    let infos: Vec<_> = outcomes.into_iter().map(|outcome| outcome.device_info).collect();
    assert_eq!(infos, [None, None, Some(info), None]);
    assert!(cni_file.exists());
    del(&fixture, &pod).unwrap();
    assert_eq!(fixture.files(&folder.join("cni")), [""; 0]);
    assert_eq!(fixture.files(&folder.join("dp")), ["x-vf-d1-device.json"], "the device plugin's file stays");
    fixture.assert_clean();
}

#[test]
fn cni_args_of_a_network_reach_only_its_plugins() {
    let (fixture, daemon, pod) = set_up();
    let script = "echo \"$CNI_COMMAND $CNI_IFNAME ${CNI_ARGS##*K8S_POD_UID=}\" >> $LOG\n\
                  [ $CNI_COMMAND != ADD ] || echo '{\"ips\":[]}'";
    fixture.install_plugin("args", script);
    let mut network = foreign_attachment("n", "net1", false, "1.0.0", json!([{"type": "args"}]));
    network.args.insert("MAC".into(), "02:00:00:00:00:01".into());
    let default = foreign_attachment("d", "eth0", true, "1.0.0", json!([{"type": "args"}]));
    daemon.state.lock().unwrap().attachments = vec![default, network];
    // The default network's result has no address, which CNI versions since 0.3.0 allow, so ADD must succeed.
    add(&fixture, &pod).unwrap();
    del(&fixture, &pod).unwrap();
    let log: Vec<_> = fixture.take_log().into_iter().filter(|line| line.contains("u-1")).collect();
    let mac = ";MAC=02:00:00:00:00:01";
    assert_eq!(
        log,
        [
            "ADD eth0 u-1".to_owned(),
            format!("ADD net1 u-1{mac}"),
            format!("DEL net1 u-1{mac}"),
            "DEL eth0 u-1".to_owned()
        ]
    );
}

// Case: cni 83
#[test]
fn an_infiniband_interface_can_be_the_default_network() {
    let (fixture, daemon, pod) = set_up();
    {
        let mut state = daemon.state.lock().unwrap();
        let mut default = ipoib_attachment("eth0");
        default.default = true;
        state.attachments = vec![default, ipoib_attachment("net1")];
        state.assigned =
            vec![assigned_addresses(0, "192.168.0.5/24"), assigned_addresses(1, "192.168.1.5/24")];
        state.assigned[1].routes.clear();
    }
    let result = add(&fixture, &pod).unwrap();
    assert_eq!(result["ips"][0]["address"], "192.168.0.5/24");
    assert_eq!(
        (pod.addresses("eth0"), pod.addresses("net1")),
        (vec!["192.168.0.5/24".to_owned()], vec!["192.168.1.5/24".to_owned()])
    );
    del(&fixture, &pod).unwrap();
    assert_eq!(pod.link_names(), [""; 0]);
    host_ip(&["link", "show", "ib0"]);
    fixture.assert_clean();
}

// The kernel reads a name up to the zero byte, so this would be a second `net1`.
#[test]
fn an_interface_name_with_a_zero_byte_is_rejected_before_any_change() {
    let (fixture, daemon, pod) = set_up();
    daemon.state.lock().unwrap().attachments[1].ifname = "net1\0x".into();
    let error = add(&fixture, &pod).unwrap_err();
    assert!(error.to_string().contains("zero bytes"), "{error}");
    assert_eq!((pod.link_names(), fixture.take_log()), (vec![], vec![]));
    fixture.assert_clean();
}
