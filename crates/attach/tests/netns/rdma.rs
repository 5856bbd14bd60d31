//! The `rdma` plugin on simulated adapters, and state files of the upstream plugins.

use crate::fixture::{PodNetnsFixture, wait_until};
use crate::ib_sriov::NET1;
use crate::sim_host::{PF, SimHostFixture, VF0, VF1, guid, ib_sriov_config, pci};
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

fn rdma(host: &SimHostFixture, command: &str, pod: &PodNetnsFixture, config: &Value) -> Result<Value, Error> {
    host.run(PluginType::Rdma, command, NET1, &pod.path, config)
}

// Case: cni 74
#[test]
fn add_moves_the_rdma_device_and_del_returns_it() {
    let host = SimHostFixture::new(Exclusive);
    let (pod, before) = (PodNetnsFixture::new(), host.snapshot());
    let config = chained(&pod, VF0);
    let result = rdma(&host, "ADD", &pod, &config).unwrap();
    assert_eq!(result, previous(&pod));
    assert_eq!(host.rdma_devices(Some(&pod)).len(), 1);
    rdma(&host, "CHECK", &pod, &config).unwrap();
    // DEL must return the device that was moved, even if standard input names another one.
    rdma(&host, "DEL", &pod, &chained(&pod, VF1)).unwrap();
    assert_eq!((host.rdma_devices(Some(&pod)), host.snapshot()), (vec![], before));
    rdma(&host, "DEL", &pod, &config).unwrap();
}

#[test]
fn chained_after_ib_sriov_the_pod_keeps_its_interface() {
    for follows in [false, true] {
        let host = SimHostFixture::with_profile(|profile| {
            profile.netns_mode = Exclusive;
            profile.ipoib_follows = follows;
        });
        host.install_ipam_script("lease", "");
        let (pod, before) = (PodNetnsFixture::new(), host.snapshot());
        let first = ib_sriov_config(json!({"rdmaIsolation": false, "ipam": {"type": "lease"}}));
        let result = host.run(PluginType::IbSriov, "ADD", NET1, &pod.path, &first).unwrap();
        let mut second = chained(&pod, VF0);
        second["prevResult"] = result;
        rdma(&host, "ADD", &pod, &second).unwrap();
        assert_eq!(
            (pod.link_names(), pod.addresses("net1")),
            (vec!["net1".into()], vec!["10.9.0.7/24".into()])
        );
        let routes = pod.ip(&["route", "show", "10.20.0.0/16"]);
        assert_eq!(routes[0]["gateway"], "10.9.0.1", "{routes}");
        assert_eq!(host.rdma_devices(Some(&pod)).len(), 1);
        rdma(&host, "DEL", &pod, &second).unwrap();
        host.run(PluginType::IbSriov, "DEL", NET1, &pod.path, &first).unwrap();
        assert_eq!((pod.link_names(), host.snapshot()), (vec![], before), "follows: {follows}");
    }
}

// Case: cni 65, cni 66, cni 67, cni 69
#[test]
fn shared_mode_missing_prev_result_and_unknown_devices_are_rejected() {
    let pod = PodNetnsFixture::new();
    let host = SimHostFixture::new(Shared);
    let before = host.snapshot();
    let error = rdma(&host, "ADD", &pod, &chained(&pod, VF0)).unwrap_err();
    assert!(matches!(error, Error::OnNetwork { .. } | Error::SharedRdma), "{error}");
    assert!(error.to_string().contains("shared by all namespaces"), "{error}");
    assert_eq!(host.snapshot(), before);
    drop(host);

    let host = SimHostFixture::new(Exclusive);
    let before = host.snapshot();
    let mut alone = chained(&pod, VF0);
    alone.as_object_mut().unwrap().remove("prevResult");
    let error = rdma(&host, "ADD", &pod, &alone).unwrap_err();
    assert!(error.to_string().contains("prevResult") && error.fault().remedy.contains("after"), "{error}");
    let mut other = chained(&pod, VF0);
    other["prevResult"]["cniVersion"] = json!("9.9.9");
    assert_eq!(rdma(&host, "ADD", &pod, &other).unwrap_err().code(), 1);
    // ADD must fail for each of these devices, because none exists. PCI has no function 8, so `0000:04:00.8`
    // is looked up as an auxiliary device.
    for nowhere in ["0000:04:00.5", "mlx5_core.sf.6", "0000:04:00.8", "../../etc"] {
        let error = rdma(&host, "ADD", &pod, &chained(&pod, nowhere)).unwrap_err();
        assert!(error.to_string().contains("has 0 RDMA devices"), "{nowhere}: {error}");
    }
    assert_eq!(host.snapshot(), before);
}

// Case: cni 68
#[test]
fn without_a_device_id_the_mac_must_match_exactly_one_vf() {
    let host = SimHostFixture::new(Exclusive);
    let (pod, before) = (PodNetnsFixture::new(), host.snapshot());
    let mut config = chained(&pod, "");
    let error = rdma(&host, "ADD", &pod, &config).unwrap_err();
    assert!(error.to_string().contains("cannot find the device"), "{error}");
    let second = json!({"name": "net2", "sandbox": pod.path});
    config["prevResult"]["interfaces"].as_array_mut().unwrap().push(second);
    rdma(&host, "ADD", &pod, &config).unwrap_err();
    assert_eq!(host.snapshot(), before);
}

// Case: cni 67, cni 69
#[test]
fn a_sub_function_is_found_on_the_auxiliary_bus() {
    let host = SimHostFixture::new(Exclusive);
    let pod = PodNetnsFixture::new();
    let device = host.rdma_devices(None).pop().unwrap();
    let folder = host.hardware.root().sys("bus/auxiliary/devices/mlx5_core.sf.6/infiniband");
    fs::create_dir_all(folder.join(&device)).unwrap();
    rdma(&host, "ADD", &pod, &chained(&pod, "mlx5_core.sf.6")).unwrap();
    assert_eq!(host.rdma_devices(Some(&pod)), std::slice::from_ref(&device));
    rdma(&host, "DEL", &pod, &chained(&pod, "mlx5_core.sf.6")).unwrap();
    assert!(host.rdma_devices(None).contains(&device));
    // A sub-function with more than one RDMA device must be rejected.
    fs::create_dir(folder.join("mlx5_99")).unwrap();
    fs::create_dir_all(folder.join(&device)).unwrap();
    let error = rdma(&host, "ADD", &pod, &chained(&pod, "mlx5_core.sf.6")).unwrap_err();
    assert!(error.to_string().contains("has 2 RDMA devices"), "{error}");
}

// Case: cni 71
#[test]
fn nothing_is_moved_when_the_journal_cannot_be_written() {
    let host = SimHostFixture::new(Exclusive);
    let pod = PodNetnsFixture::new();
    fs::create_dir_all(host.root.state("")).unwrap();
    fs::write(host.root.state("journal"), "").unwrap();
    assert_eq!(rdma(&host, "ADD", &pod, &chained(&pod, VF0)).unwrap_err().code(), 5);
    assert_eq!(host.rdma_devices(Some(&pod)), [""; 0]);
}

// Case: cni 72, cni 73, cni 74
#[test]
fn del_succeeds_without_state_and_without_a_namespace() {
    let host = SimHostFixture::new(Exclusive);
    let before = host.snapshot();
    let mut pod = PodNetnsFixture::new();
    let config = chained(&pod, VF0);
    rdma(&host, "DEL", &pod, &config).unwrap();
    rdma(&host, "ADD", &pod, &config).unwrap();
    pod.delete_netns();
    host.run(PluginType::Rdma, "DEL", NET1, "", &config).unwrap();
    wait_until(|| host.snapshot() == before);
    host.run(PluginType::Rdma, "DEL", NET1, "", &config).unwrap();
}

// Case: cni 56, cni 61
#[test]
fn del_restores_a_vf_from_upstreams_state_file() {
    let host = SimHostFixture::new(Exclusive);
    let (pod, before) = (PodNetnsFixture::new(), host.snapshot());
    let name = host.vf_interface(VF0).unwrap();
    // Attach the function in upstream's order: GUIDs, rebind, RDMA device, interface, and the state file
    // last.
    let function = pci(VF0);
    let own = guid(0x0200_0000_0000_0200);
    host.set_guids(0, guid(0x0123_4567_89ab_cdef), guid(0x0123_4567_89ab_cdef));
    host.hardware.set_vf_link_state(pci(PF), 0, VfLinkState::Enable).unwrap();
    let device =
        ferroband_kernel::sysfs::infiniband::device_names_of_function(host.hardware.root(), function)
            .unwrap()
            .remove(0);
    host.hardware.move_rdma_device(&device, None, pod.netns.as_ref().unwrap()).unwrap();
    let link = host.hardware.interfaces(function, None).unwrap().remove(0);
    crate::fixture::host_ip(&["link", "set", "dev", &link.name, "netns", &pod.path]);
    pod.ip(&["link", "set", "dev", &link.name, "name", "net1"]);
    let state = json!({
        "Master": "ibs5f0", "deviceID": VF0, "VFID": 0, "HostIFNames": name, "HostIFGUID": own.to_string(),
        "ContIFNames": "net1", "pkey": "", "link_state": "enable", "rdmaIsolation": true,
        "RdmaNetState": {"version": "", "deviceID": VF0, "sandboxRdmaDevName": device, "containerRdmaDevName": device},
        "runtimeConfig": {"infinibandGUID": "01:23:45:67:89:ab:cd:ef"}, "args": {"cni": null},
        "cniVersion": "0.3.1", "name": "ib", "type": "ib-sriov", "ipam": {},
    });
    let folder = host.path("var/lib/cni/ib-sriov");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("c1-net1"), state.to_string()).unwrap();

    host.run(PluginType::IbSriov, "DEL", NET1, &pod.path, &ib_sriov_config(json!({}))).unwrap();
    assert_eq!((pod.link_names(), host.rdma_devices(Some(&pod))), (vec![], vec![]));
    let vf = host.hardware.vfs(pci(PF)).unwrap()[0];
    // Upstream's file contains a single GUID, so DEL must set it as node GUID and as port GUID.
    assert_eq!((vf.node_guid, vf.port_guid, vf.link_state), (Some(own), Some(own), Some(VfLinkState::Auto)));
    assert_eq!(host.vf_interface(VF0), Some(name));
    host.set_guids(0, guid(0x0200_0000_0000_0100), own);
    assert_eq!(host.snapshot(), before);

    // A damaged state file counts as absent: DEL must succeed and change nothing.
    fs::write(folder.join("c1-net1"), "{").unwrap();
    host.run(PluginType::IbSriov, "DEL", NET1, &pod.path, &ib_sriov_config(json!({}))).unwrap();
    assert_eq!(host.snapshot(), before);
}

#[test]
fn del_returns_an_rdma_device_from_upstreams_state_file() {
    let host = SimHostFixture::new(Exclusive);
    let (pod, before) = (PodNetnsFixture::new(), host.snapshot());
    let device =
        ferroband_kernel::sysfs::infiniband::device_names_of_function(host.hardware.root(), pci(VF0))
            .unwrap()
            .remove(0);
    host.hardware.move_rdma_device(&device, None, pod.netns.as_ref().unwrap()).unwrap();
    let state = json!({"version": "1.0", "deviceID": VF0, "sandboxRdmaDevName": device, "containerRdmaDevName": device});
    let folder = host.path("var/lib/cni/rdma");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("ib-c1-net1"), state.to_string()).unwrap();
    rdma(&host, "DEL", &pod, &chained(&pod, VF0)).unwrap();
    assert_eq!((host.rdma_devices(Some(&pod)), host.snapshot()), (vec![], before));
}
