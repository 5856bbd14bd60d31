//! `rdma` on simulated adapters, and the files of the plugins that we stand in for.

use crate::functions::NET1;
use crate::rack::{PF, SimHostFixture, VF0, VF1, guid, ib_sriov_config, pci};
use crate::stage::{PodNetnsFixture, wait_until};
use ferroband_attach::{Error, PluginType};
use ferroband_kernel::NetnsMode::{Exclusive, Shared};
use ferroband_kernel::rtnetlink::VfLinkState;
use serde_json::{Value, json};
use std::fs;

fn previous(pod: &PodNetnsFixture) -> Value {
    json!({"cniVersion": "1.1.0", "interfaces": [{"name": "net1", "sandbox": pod.path}],
        "ips": [{"interface": 0, "address": "10.9.0.7/24", "gateway": "10.9.0.1"}],
        "routes": [{"dst": "10.20.0.0/16"}]})
}

fn chained(pod: &PodNetnsFixture, device: &str) -> Value {
    json!({"cniVersion": "1.1.0", "name": "ib", "type": "rdma", "deviceID": device, "prevResult": previous(pod)})
}

fn rdma(rack: &SimHostFixture, command: &str, pod: &PodNetnsFixture, config: &Value) -> Result<Value, Error> {
    rack.run(PluginType::Rdma, command, NET1, &pod.path, config)
}

#[test]
fn a_device_comes_and_goes_and_the_result_is_handed_on() {
    let rack = SimHostFixture::new(Exclusive);
    let (pod, before) = (PodNetnsFixture::new(), rack.snapshot());
    let config = chained(&pod, VF0);
    let result = rdma(&rack, "ADD", &pod, &config).unwrap();
    assert_eq!(result, previous(&pod));
    assert_eq!(rack.rdma_devices(Some(&pod)).len(), 1);
    rdma(&rack, "CHECK", &pod, &config).unwrap();
    // Case 74: what was moved counts, not what standard input says by now.
    rdma(&rack, "DEL", &pod, &chained(&pod, VF1)).unwrap();
    assert_eq!((rack.rdma_devices(Some(&pod)), rack.snapshot()), (vec![], before));
    rdma(&rack, "DEL", &pod, &config).unwrap();
}

#[test]
fn softib_3_3_after_ib_sriov_the_pod_still_has_its_interface() {
    for follows in [false, true] {
        let rack = SimHostFixture::with_profile(|profile| {
            profile.netns_mode = Exclusive;
            profile.ipoib_follows = follows;
        });
        rack.install_ipam_script("lease", "");
        let (pod, before) = (PodNetnsFixture::new(), rack.snapshot());
        let first = ib_sriov_config(json!({"rdmaIsolation": false, "ipam": {"type": "lease"}}));
        let result = rack.run(PluginType::IbSriov, "ADD", NET1, &pod.path, &first).unwrap();
        let mut second = chained(&pod, VF0);
        second["prevResult"] = result;
        rdma(&rack, "ADD", &pod, &second).unwrap();
        assert_eq!(
            (pod.link_names(), pod.addresses("net1")),
            (vec!["net1".into()], vec!["10.9.0.7/24".into()])
        );
        let routes = pod.ip(&["route", "show", "10.20.0.0/16"]);
        assert_eq!(routes[0]["gateway"], "10.9.0.1", "{routes}");
        assert_eq!(rack.rdma_devices(Some(&pod)).len(), 1);
        rdma(&rack, "DEL", &pod, &second).unwrap();
        rack.run(PluginType::IbSriov, "DEL", NET1, &pod.path, &first).unwrap();
        assert_eq!((pod.link_names(), rack.snapshot()), (vec![], before), "follows: {follows}");
    }
}

#[test]
fn cases_65_66_and_69_what_is_refused() {
    let pod = PodNetnsFixture::new();
    let rack = SimHostFixture::new(Shared);
    let before = rack.snapshot();
    let error = rdma(&rack, "ADD", &pod, &chained(&pod, VF0)).unwrap_err();
    assert!(matches!(error, Error::OnNetwork { .. } | Error::SharedRdma), "{error}");
    assert!(error.to_string().contains("shared by all namespaces"), "{error}");
    assert_eq!(rack.snapshot(), before);
    drop(rack);

    let rack = SimHostFixture::new(Exclusive);
    let before = rack.snapshot();
    let mut alone = chained(&pod, VF0);
    alone.as_object_mut().unwrap().remove("prevResult");
    let error = rdma(&rack, "ADD", &pod, &alone).unwrap_err();
    assert!(error.to_string().contains("prevResult") && error.fault().remedy.contains("after"), "{error}");
    let mut other = chained(&pod, VF0);
    other["prevResult"]["cniVersion"] = json!("9.9.9");
    assert_eq!(rdma(&rack, "ADD", &pod, &other).unwrap_err().code(), 1);
    // Case 67: a function 8 does not exist on a PCI bus, so this is looked for among auxiliary devices.
    for nowhere in ["0000:04:00.5", "mlx5_core.sf.6", "0000:04:00.8", "../../etc"] {
        let error = rdma(&rack, "ADD", &pod, &chained(&pod, nowhere)).unwrap_err();
        assert!(error.to_string().contains("has 0 RDMA devices"), "{nowhere}: {error}");
    }
    assert_eq!(rack.snapshot(), before);
}

#[test]
fn case_68_without_a_device_the_address_must_tell_it() {
    let rack = SimHostFixture::new(Exclusive);
    let (pod, before) = (PodNetnsFixture::new(), rack.snapshot());
    let mut config = chained(&pod, "");
    let error = rdma(&rack, "ADD", &pod, &config).unwrap_err();
    assert!(error.to_string().contains("cannot be told"), "{error}");
    let second = json!({"name": "net2", "sandbox": pod.path});
    config["prevResult"]["interfaces"].as_array_mut().unwrap().push(second);
    rdma(&rack, "ADD", &pod, &config).unwrap_err();
    assert_eq!(rack.snapshot(), before);
}

#[test]
fn case_67_a_sub_function_is_found_on_the_auxiliary_bus() {
    let rack = SimHostFixture::new(Exclusive);
    let pod = PodNetnsFixture::new();
    let device = rack.rdma_devices(None).pop().unwrap();
    let folder = rack.hardware.root().sys("bus/auxiliary/devices/mlx5_core.sf.6/infiniband");
    fs::create_dir_all(folder.join(&device)).unwrap();
    rdma(&rack, "ADD", &pod, &chained(&pod, "mlx5_core.sf.6")).unwrap();
    assert_eq!(rack.rdma_devices(Some(&pod)), std::slice::from_ref(&device));
    rdma(&rack, "DEL", &pod, &chained(&pod, "mlx5_core.sf.6")).unwrap();
    assert!(rack.rdma_devices(None).contains(&device));
    // Case 69, more than one.
    fs::create_dir(folder.join("mlx5_99")).unwrap();
    fs::create_dir_all(folder.join(&device)).unwrap();
    let error = rdma(&rack, "ADD", &pod, &chained(&pod, "mlx5_core.sf.6")).unwrap_err();
    assert!(error.to_string().contains("has 2 RDMA devices"), "{error}");
}

#[test]
fn case_71_without_a_place_for_the_journal_nothing_moves() {
    let rack = SimHostFixture::new(Exclusive);
    let pod = PodNetnsFixture::new();
    fs::create_dir_all(rack.root.state("")).unwrap();
    fs::write(rack.root.state("journal"), "").unwrap();
    assert_eq!(rdma(&rack, "ADD", &pod, &chained(&pod, VF0)).unwrap_err().code(), 5);
    assert_eq!(rack.rdma_devices(Some(&pod)), [""; 0]);
}

#[test]
fn cases_72_to_74_del_with_no_state_and_with_no_namespace() {
    let rack = SimHostFixture::new(Exclusive);
    let before = rack.snapshot();
    let mut pod = PodNetnsFixture::new();
    let config = chained(&pod, VF0);
    rdma(&rack, "DEL", &pod, &config).unwrap();
    rdma(&rack, "ADD", &pod, &config).unwrap();
    pod.delete_netns();
    rack.run(PluginType::Rdma, "DEL", NET1, "", &config).unwrap();
    wait_until(|| rack.snapshot() == before);
    rack.run(PluginType::Rdma, "DEL", NET1, "", &config).unwrap();
}

#[test]
fn case_61_a_function_that_upstream_gave_away() {
    let rack = SimHostFixture::new(Exclusive);
    let (pod, before) = (PodNetnsFixture::new(), rack.snapshot());
    let name = rack.vf_interface(VF0).unwrap();
    // The way upstream does it: GUIDs, rebind, device, interface, and the file last.
    let function = pci(VF0);
    let own = guid(0x0200_0000_0000_0200);
    rack.set_guids(0, guid(0x0123_4567_89ab_cdef), guid(0x0123_4567_89ab_cdef));
    rack.hardware.set_vf_link_state(pci(PF), 0, VfLinkState::Enable).unwrap();
    let device =
        ferroband_kernel::sysfs::infiniband::device_names_of_function(rack.hardware.root(), function)
            .unwrap()
            .remove(0);
    rack.hardware.move_rdma_device(&device, None, pod.netns.as_ref().unwrap()).unwrap();
    let link = rack.hardware.interfaces(function, None).unwrap().remove(0);
    crate::stage::host_ip(&["link", "set", "dev", &link.name, "netns", &pod.path]);
    pod.ip(&["link", "set", "dev", &link.name, "name", "net1"]);
    let state = json!({
        "Master": "ibs5f0", "deviceID": VF0, "VFID": 0, "HostIFNames": name, "HostIFGUID": own.to_string(),
        "ContIFNames": "net1", "pkey": "", "link_state": "enable", "rdmaIsolation": true,
        "RdmaNetState": {"version": "", "deviceID": VF0, "sandboxRdmaDevName": device, "containerRdmaDevName": device},
        "runtimeConfig": {"infinibandGUID": "01:23:45:67:89:ab:cd:ef"}, "args": {"cni": null},
        "cniVersion": "0.3.1", "name": "ib", "type": "ib-sriov", "ipam": {},
    });
    let folder = rack.path("var/lib/cni/ib-sriov");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("c1-net1"), state.to_string()).unwrap();

    rack.run(PluginType::IbSriov, "DEL", NET1, &pod.path, &ib_sriov_config(json!({}))).unwrap();
    assert_eq!((pod.link_names(), rack.rdma_devices(Some(&pod))), (vec![], vec![]));
    let vf = rack.hardware.vfs(pci(PF)).unwrap()[0];
    // Its file remembers one GUID for both.
    assert_eq!((vf.node_guid, vf.port_guid, vf.link_state), (Some(own), Some(own), Some(VfLinkState::Auto)));
    assert_eq!(rack.vf_interface(VF0), Some(name));
    rack.set_guids(0, guid(0x0200_0000_0000_0100), own);
    assert_eq!(rack.snapshot(), before);

    // Case 56: one that cannot be read is as good as none.
    fs::write(folder.join("c1-net1"), "{").unwrap();
    rack.run(PluginType::IbSriov, "DEL", NET1, &pod.path, &ib_sriov_config(json!({}))).unwrap();
    assert_eq!(rack.snapshot(), before);
}

#[test]
fn a_device_that_upstream_moved() {
    let rack = SimHostFixture::new(Exclusive);
    let (pod, before) = (PodNetnsFixture::new(), rack.snapshot());
    let device =
        ferroband_kernel::sysfs::infiniband::device_names_of_function(rack.hardware.root(), pci(VF0))
            .unwrap()
            .remove(0);
    rack.hardware.move_rdma_device(&device, None, pod.netns.as_ref().unwrap()).unwrap();
    let state = json!({"version": "1.0", "deviceID": VF0, "sandboxRdmaDevName": device, "containerRdmaDevName": device});
    let folder = rack.path("var/lib/cni/rdma");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("ib-c1-net1"), state.to_string()).unwrap();
    rdma(&rack, "DEL", &pod, &chained(&pod, VF0)).unwrap();
    assert_eq!((rack.rdma_devices(Some(&pod)), rack.snapshot()), (vec![], before));
}
