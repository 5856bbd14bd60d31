//! What pods ask of their networks: default routes, devices, old ways to say it.

use crate::daemon::ScriptedDaemon;
use crate::meta::{ETH0, assigned_addresses, config, foreign_attachment, ipoib_attachment, set_up};
use crate::stage::{AttachFixture, PodNetnsFixture, host_ip};
use ferroband_attach::message::DaemonRequest;
use ferroband_attach::plan::{AttachmentDevice, DefaultRoute, DefaultRoutes};
use ferroband_attach::{Error, PluginType};
use serde_json::{Value, json};
use std::fs;

fn add(stage: &AttachFixture, pod: &PodNetnsFixture) -> Result<Value, Error> {
    stage.run(PluginType::Ferroband, "ADD", ETH0, &pod.path, &config())
}

fn del(stage: &AttachFixture, pod: &PodNetnsFixture) -> Result<Value, Error> {
    stage.run(PluginType::Ferroband, "DEL", ETH0, &pod.path, &config())
}

/// A default network that makes a real eth0 with default routes of both families, one of IPv4 with a metric.
fn routed_default(stage: &AttachFixture, daemon: &ScriptedDaemon) {
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
    stage.install_plugin("router", &script);
    let mut ledger = daemon.state.lock().unwrap();
    ledger.attachments[0] = foreign_attachment("cbr0", "eth0", true, "1.0.0", json!([{"type": "router"}]));
}

fn defaults(pod: &PodNetnsFixture, family: &str) -> Vec<String> {
    let routes = pod.ip(&[family, "route", "show", "default"]);
    let text = |route: &Value, key: &str| route[key].as_str().unwrap_or_default().to_owned();
    let routes = routes.as_array().unwrap().iter();
    routes.map(|route| format!("{} {}", text(route, "gateway"), text(route, "dev"))).collect()
}

#[test]
fn case_103_the_default_route_goes_through_the_network_that_asks_for_it() {
    let (stage, daemon, pod) = set_up();
    routed_default(&stage, &daemon);
    let wish = |v4| DefaultRoutes { v4, ..DefaultRoutes::default() };
    {
        let mut ledger = daemon.state.lock().unwrap();
        ledger.attachments[0].default_routes = wish(DefaultRoute::Remove);
        ledger.attachments[1].default_routes = wish(DefaultRoute::Via("192.168.0.1".parse().unwrap()));
    }
    let result = add(&stage, &pod).unwrap();
    assert_eq!(defaults(&pod, "-4"), ["192.168.0.1 net1"], "exactly one");
    assert_eq!(defaults(&pod, "-6"), ["fd09::1 eth0"], "nobody asked for this family");
    assert_eq!(result["routes"], json!([{"dst": "::/0", "gw": "fd09::1"}]), "what the runtime is told");
    let Some(DaemonRequest::Attached(outcomes)) = daemon.state.lock().unwrap().recorded.last().cloned()
    else {
        panic!()
    };
    let gateway = json!({"dst": "0.0.0.0/0", "gw": "192.168.0.1"});
    assert!(outcomes[1].result["routes"].as_array().unwrap().contains(&gateway), "{}", outcomes[1].result);
    let newer = json!({"cniVersion": "1.0.0", "name": "ferroband", "type": "ferroband"});
    stage.run(PluginType::Ferroband, "CHECK", ETH0, &pod.path, &newer).unwrap();
    pod.ip(&["route", "del", "default"]);
    stage.run(PluginType::Ferroband, "CHECK", ETH0, &pod.path, &newer).unwrap_err();
    del(&stage, &pod).unwrap();
    assert_eq!(pod.link_names(), [""; 0]);
    stage.assert_clean();
}

#[test]
fn case_103_an_empty_list_takes_the_default_routes_away() {
    let (stage, daemon, pod) = set_up();
    routed_default(&stage, &daemon);
    for attachment in &mut daemon.state.lock().unwrap().attachments {
        attachment.default_routes = DefaultRoutes { v4: DefaultRoute::Remove, v6: DefaultRoute::Remove };
    }
    add(&stage, &pod).unwrap();
    assert_eq!((defaults(&pod, "-4"), defaults(&pod, "-6")), (vec![], vec![]));
    del(&stage, &pod).unwrap();
    stage.assert_clean();
}

#[test]
fn case_103_a_gateway_that_cannot_be_reached_undoes_all() {
    let (stage, daemon, pod) = set_up();
    let gateway = DefaultRoute::Via("172.16.9.1".parse().unwrap());
    daemon.state.lock().unwrap().attachments[1].default_routes =
        DefaultRoutes { v4: gateway, ..DefaultRoutes::default() };
    let error = add(&stage, &pod).unwrap_err();
    assert!(error.to_string().contains("jarvice-ipoib"), "{error}");
    assert_eq!((pod.link_names(), daemon.held_containers()), (vec![], vec![]));
    stage.assert_clean();
}

#[test]
fn case_114_the_device_info_file_reaches_the_plugin_and_network_status() {
    let (stage, daemon, pod) = set_up();
    let info = json!({"type": "pci", "version": "1.1.0", "pci": {"pci-address": "0000:3b:00.2"}});
    let folder = stage.root.run("k8s.cni.cncf.io/devinfo");
    fs::create_dir_all(folder.join("dp")).unwrap();
    fs::write(folder.join("dp/x-vf-d1-device.json"), info.to_string()).unwrap();
    let handed = folder.join("cni/default-vf-c1_net2");
    stage.install_plugin(
        "vf",
        &format!(
            "[ $CNI_COMMAND = ADD ] || exit 0\ncp {} $LEASES/../seen && echo '{{\"ips\":[]}}'",
            handed.display()
        ),
    );
    {
        let mut ledger = daemon.state.lock().unwrap();
        let mut vf = foreign_attachment("vf", "net2", false, "1.0.0", json!([{"type": "vf"}]));
        vf.network = "default/vf".into();
        vf.device = Some(AttachmentDevice { resource: "x/vf".into(), id: "d1".into() });
        // One whose device plugin wrote nothing.
        let mut other = vf.clone();
        other.ifname = "net3".into();
        other.device = Some(AttachmentDevice { resource: "x/vf".into(), id: "d2".into() });
        other.steps.clear();
        ledger.attachments.extend([vf, other]);
    }
    add(&stage, &pod).unwrap();
    let seen: Value = serde_json::from_slice(&fs::read(stage.path("seen")).unwrap()).unwrap();
    assert_eq!(seen, info, "it is there before the plugin runs");
    let Some(DaemonRequest::Attached(outcomes)) = daemon.state.lock().unwrap().recorded.last().cloned()
    else {
        panic!()
    };
    let told: Vec<_> = outcomes.into_iter().map(|outcome| outcome.device_info).collect();
    assert_eq!(told, [None, None, Some(info), None]);
    assert!(handed.exists());
    del(&stage, &pod).unwrap();
    assert_eq!(stage.files(&folder.join("cni")), [""; 0]);
    assert_eq!(stage.files(&folder.join("dp")), ["x-vf-d1-device.json"], "the device plugin's own stays");
    stage.assert_clean();
}

#[test]
fn pairs_of_an_attachment_reach_its_plugins_alone() {
    let (stage, daemon, pod) = set_up();
    let script = "echo \"$CNI_COMMAND $CNI_IFNAME ${CNI_ARGS##*K8S_POD_UID=}\" >> $LOG\n\
                  [ $CNI_COMMAND != ADD ] || echo '{\"ips\":[]}'";
    stage.install_plugin("args", script);
    let mut network = foreign_attachment("n", "net1", false, "1.0.0", json!([{"type": "args"}]));
    network.args.insert("MAC".into(), "02:00:00:00:00:01".into());
    let default = foreign_attachment("d", "eth0", true, "1.0.0", json!([{"type": "args"}]));
    daemon.state.lock().unwrap().attachments = vec![default, network];
    // The result of the default network has no address, which 0.3.1 can say.
    add(&stage, &pod).unwrap();
    del(&stage, &pod).unwrap();
    let log: Vec<_> = stage.take_log().into_iter().filter(|line| line.contains("u-1")).collect();
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

#[test]
fn case_83_an_infiniband_interface_as_the_default_network() {
    let (stage, daemon, pod) = set_up();
    {
        let mut ledger = daemon.state.lock().unwrap();
        let mut default = ipoib_attachment("eth0");
        default.default = true;
        ledger.attachments = vec![default, ipoib_attachment("net1")];
        ledger.assigned =
            vec![assigned_addresses(0, "192.168.0.5/24"), assigned_addresses(1, "192.168.1.5/24")];
        ledger.assigned[1].routes.clear();
    }
    let result = add(&stage, &pod).unwrap();
    assert_eq!(result["ips"][0]["address"], "192.168.0.5/24");
    assert_eq!(
        (pod.addresses("eth0"), pod.addresses("net1")),
        (vec!["192.168.0.5/24".to_owned()], vec!["192.168.1.5/24".to_owned()])
    );
    del(&stage, &pod).unwrap();
    assert_eq!(pod.link_names(), [""; 0]);
    host_ip(&["link", "show", "ib0"]);
    stage.assert_clean();
}
