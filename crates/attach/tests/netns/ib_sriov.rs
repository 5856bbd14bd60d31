//! The `ib-sriov` plugin on simulated adapters.

use crate::crash::run_killed_at_point;
use crate::fixture::{PodNetnsFixture, host_ip, wait_until};
use crate::sim_host::{PF, SimHostFixture, VF0, VF1, guid, ib_sriov_config, pci};
use ferroband_attach::{CniContext, Error, FailPoint, PluginType};
use ferroband_kernel::NetnsMode::{Exclusive, Shared};
use ferroband_kernel::rtnetlink::VfLinkState;
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

pub const NET1: (&str, &str) = ("c1", "net1");
const REQUESTED_GUID: &str = "01:23:45:67:89:ab:cd:ef";

fn add(host: &SimHostFixture, pod: &PodNetnsFixture, more: Value) -> Result<Value, Error> {
    host.run(PluginType::IbSriov, "ADD", NET1, &pod.path, &ib_sriov_config(more))
}

fn del(host: &SimHostFixture, pod: &PodNetnsFixture, more: Value) -> Result<Value, Error> {
    host.run(PluginType::IbSriov, "DEL", NET1, &pod.path, &ib_sriov_config(more))
}

fn with_guid() -> Value {
    json!({"runtimeConfig": {"infinibandGUID": REQUESTED_GUID}})
}

/// Run a call and return the fail points that it passes.
fn points(host: &SimHostFixture, pod: &PodNetnsFixture, command: &str, more: Value) -> Vec<FailPoint> {
    let points_passed = RefCell::new(Vec::new());
    let watch = |point: FailPoint| points_passed.borrow_mut().push(point);
    let context = CniContext { fail_point: &watch, ..host.context() };
    host.run_on(&context, PluginType::IbSriov, &host.call(command, NET1, &pod.path, &ib_sriov_config(more)))
        .unwrap();
    points_passed.into_inner()
}

// Case: cni 55, cni 63
#[test]
fn add_moves_the_vf_into_the_pod_and_del_restores_it() {
    let host = SimHostFixture::new(Shared);
    host.install_ipam_script("lease", "");
    let pod = PodNetnsFixture::new();
    let before = host.snapshot();
    let ipam = json!({"ipam": {"type": "lease"}, "mtu": 1400, "dns": {"domain": "of.config"}});
    let result = add(&host, &pod, ipam.clone()).unwrap();
    assert_eq!(pod.link_names(), ["net1"]);
    let link = pod.interface("net1");
    assert!(link["flags"].as_array().unwrap().contains(&json!("UP")) && link["mtu"] == 1400, "{link}");
    assert_eq!(pod.addresses("net1"), ["10.9.0.7/24"]);
    assert_eq!(host.vf_interface(VF0), None, "it must leave the host");
    let interface = &result["interfaces"][0];
    assert_eq!(
        (&interface["name"], &interface["pciID"], &interface["mtu"]),
        (&json!("net1"), &json!(VF0), &json!(1400))
    );
    assert_eq!((&interface["mac"], &interface["sandbox"]), (&link["address"], &json!(pod.path)));
    assert_eq!(result["ips"][0]["interface"], 0);
    // The name servers in the result must be those that the IPAM plugin returned.
    assert_eq!(result["dns"], json!({"nameservers": ["10.9.0.53"]}));
    host.run(
        PluginType::IbSriov,
        "CHECK",
        NET1,
        &pod.path,
        &ib_sriov_config(with(&ipam, "prevResult", &result)),
    )
    .unwrap();

    del(&host, &pod, ipam.clone()).unwrap();
    assert_eq!((pod.link_names(), host.snapshot()), (vec![], before));
    del(&host, &pod, ipam).unwrap();
}

fn with(config: &Value, key: &str, value: &Value) -> Value {
    let mut config = config.clone();
    config[key] = value.clone();
    config
}

// Case: cni 41, cni 50, cni 55
#[test]
fn a_requested_guid_and_link_state_are_set_before_the_move_and_restored_by_del() {
    let host = SimHostFixture::new(Shared);
    let pod = PodNetnsFixture::new();
    let before = host.snapshot();
    let all = json!({"link_state": "disable", "runtimeConfig": {"infinibandGUID": REQUESTED_GUID}});
    let points_passed = points(&host, &pod, "ADD", all.clone());
    // Expected order of the changes: link state, two GUIDs, rebind, then the interface.
    let set: Vec<_> = points_passed.iter().filter(|point| **point != FailPoint::Journaled).collect();
    assert_eq!(
        set,
        [
            &FailPoint::VfConfigured,
            &FailPoint::VfConfigured,
            &FailPoint::VfConfigured,
            &FailPoint::DeviceOpDone,
            &FailPoint::InterfaceMoved,
            &FailPoint::InterfaceRenamed
        ]
    );
    let vf = host.hardware.vfs(pci(PF)).unwrap()[0];
    let requested = Some(guid(0x0123_4567_89ab_cdef));
    assert_eq!(
        (vf.node_guid, vf.port_guid, vf.link_state),
        (requested, requested, Some(VfLinkState::Disable))
    );
    assert_eq!(pod.link_names(), ["net1"]);
    let points_passed = points(&host, &pod, "DEL", all);
    assert_eq!(
        points_passed.iter().filter(|point| **point == FailPoint::DeviceOpDone).count(),
        1,
        "one rebind: {points_passed:?}"
    );
    assert_eq!(host.snapshot(), before);
}

// Case: cni 42
#[test]
fn a_guid_that_is_already_active_is_not_set_again() {
    let host = SimHostFixture::new(Shared);
    let own = guid(0x0123_4567_89ab_cdef);
    host.set_guids(0, own, own);
    let pod = PodNetnsFixture::new();
    let before = host.snapshot();
    for command in ["ADD", "DEL"] {
        let points_passed = points(&host, &pod, command, with_guid());
        assert!(
            !points_passed.contains(&FailPoint::VfConfigured)
                && !points_passed.contains(&FailPoint::DeviceOpDone),
            "{command}: {points_passed:?}"
        );
    }
    assert_eq!(host.snapshot(), before);
}

// Case: cni 43
#[test]
fn a_vf_without_a_guid_is_rejected() {
    let host = SimHostFixture::new(Shared);
    for unset in [guid(0), guid(u64::MAX)] {
        host.set_guids(0, unset, unset);
        let (pod, before) = (PodNetnsFixture::new(), host.snapshot());
        let name = host.vf_interface(VF0).unwrap();
        let error = add(&host, &pod, json!({})).unwrap_err();
        assert!(error.to_string().contains(&format!("VF {name} GUID is not valid")), "{error}");
        assert_eq!((pod.link_names(), host.snapshot()), (vec![], before));
        // With a requested GUID, ADD must succeed. After DEL the function must have no GUID again.
        add(&host, &pod, with_guid()).unwrap();
        del(&host, &pod, with_guid()).unwrap();
        let vf = host.hardware.vfs(pci(PF)).unwrap()[0];
        assert_eq!((vf.node_guid, vf.port_guid), (None, None));
    }
}

// Case: cni 44
#[test]
fn an_ethernet_vf_is_rejected() {
    let host = SimHostFixture::with_profile(|profile| {
        profile.hcas[0].ports[0].link_layer = ferroband_model::LinkLayer::Ethernet;
    });
    let (pod, before) = (PodNetnsFixture::new(), host.snapshot());
    for more in [json!({}), with_guid()] {
        let error = add(&host, &pod, more).unwrap_err();
        assert!(error.to_string().contains("belongs to an Ethernet adapter"), "{error}");
    }
    assert_eq!(host.snapshot(), before);
}

// Case: cni 10, cni 37, cni 45, cni 46, cni 47, cni 48
#[test]
fn invalid_devices_and_options_are_rejected_without_changes() {
    let host = SimHostFixture::new(Shared);
    let pod = PodNetnsFixture::new();
    let refused = |more: Value, words: &str| {
        let before = host.snapshot();
        let error = add(&host, &pod, more).unwrap_err();
        assert!(error.to_string().contains(words), "{words}: {error}");
        assert_eq!((pod.link_names(), host.snapshot()), (vec![], before), "after: {error}");
        error.code()
    };
    assert_eq!(refused(json!({"deviceID": "0000:86:1f.7"}), "no PCI function 0000:86:1f.7"), 111);
    assert_eq!(refused(json!({"deviceID": PF}), "is not a virtual function"), 111);
    assert_eq!(refused(json!({"vfioPciMode": true}), "vfioPciMode is set"), 111);
    assert_eq!(refused(json!({"rdmaIsolation": true}), "shared by all namespaces"), 7);
    assert_eq!(refused(json!({"ipam": {"type": "dhcp"}}), "dhcp"), 7);
    let marked = json!({"cni": {"mellanox.infiniband.app": "configured"}});
    assert_eq!(refused(json!({"ibKubernetesEnabled": true, "args": marked}), "has no GUID"), 7);
    // A result of a CNI version before 0.3.0 must contain an address, so an ADD without IPAM must fail.
    assert_eq!(refused(json!({"cniVersion": "0.2.0"}), "must have an address"), 7);
}

// Case: cni 46, cni 47, cni 63
#[test]
fn a_vfio_vf_gets_a_guid_but_no_interface_and_no_addresses() {
    let host = SimHostFixture::new(Shared);
    host.install_ipam_script("lease", "");
    let pod = PodNetnsFixture::new();
    let vfio = |function: &str| {
        let function = pci(function);
        host.hardware.unbind_driver(function).unwrap();
        host.hardware.set_driver_override(function, Some("vfio-pci")).unwrap();
        host.hardware.probe_driver(function).unwrap();
    };
    vfio(VF0);
    let before = host.snapshot();
    for mode in [true, false] {
        let more = json!({"vfioPciMode": mode, "ipam": {"type": "lease"},
            "runtimeConfig": {"infinibandGUID": REQUESTED_GUID}});
        let result = add(&host, &pod, more.clone()).unwrap();
        assert!(result.get("ips").is_none() && result["interfaces"][0]["name"] == "net1", "{result}");
        assert_eq!(pod.link_names(), [""; 0]);
        let vf = host.hardware.vfs(pci(PF)).unwrap()[0];
        assert_eq!(vf.node_guid, Some(guid(0x0123_4567_89ab_cdef)));
        host.run(
            PluginType::IbSriov,
            "CHECK",
            NET1,
            &pod.path,
            &ib_sriov_config(with(&more, "prevResult", &result)),
        )
        .unwrap();
        let points_passed = points(&host, &pod, "DEL", more);
        assert!(!points_passed.contains(&FailPoint::DeviceOpDone), "no rebind: {points_passed:?}");
        assert_eq!(host.snapshot(), before);
    }
}

// Case: cni 54
#[test]
fn altnames_are_restored_by_del() {
    let host = SimHostFixture::new(Shared);
    let name = host.vf_interface(VF0).unwrap();
    for altname in ["rail0", "ibp134s0f0v0", "clash"] {
        host_ip(&["link", "property", "add", "dev", &name, "altname", altname]);
    }
    let pod = PodNetnsFixture::new();
    pod.ip(&["link", "add", "clash", "type", "bridge"]);
    let before = host.snapshot();
    add(&host, &pod, json!({})).unwrap();
    let inside = pod.interface("net1");
    let altnames: Vec<_> = inside["altnames"].as_array().unwrap().iter().collect();
    assert!(altnames.contains(&&json!("rail0")) && !altnames.contains(&&json!("clash")), "{altnames:?}");
    del(&host, &pod, json!({})).unwrap();
    assert_eq!(host.snapshot(), before);
}

#[test]
fn del_succeeds_when_the_original_name_is_taken() {
    let host = SimHostFixture::new(Shared);
    let name = host.vf_interface(VF0).unwrap();
    let pod = PodNetnsFixture::new();
    let before = host.snapshot();
    add(&host, &pod, json!({})).unwrap();
    // Another interface takes the VF's original name and `net1` as altnames. DEL must still succeed.
    // Upstream's DEL fails in this case, and so does every retry.
    host_ip(&["link", "add", "foreign", "type", "bridge"]);
    host_ip(&["link", "property", "add", "dev", "foreign", "altname", &name]);
    host_ip(&["link", "property", "add", "dev", "foreign", "altname", "net1"]);
    del(&host, &pod, json!({})).unwrap();
    assert_eq!(pod.link_names(), [""; 0]);
    let current = host.vf_interface(VF0).unwrap();
    assert_ne!(current, name);
    host_ip(&["link", "delete", "foreign"]);
    host_ip(&["link", "set", "dev", &current, "down"]);
    host_ip(&["link", "set", "dev", &current, "name", &name]);
    if before != host.snapshot() {
        host_ip(&["link", "set", "dev", &name, "up"]);
    }
    assert_eq!(host.snapshot(), before);
}

#[test]
fn the_interface_of_a_killed_add_is_renamed_when_it_holds_another_vfs_name() {
    let host = SimHostFixture::new(Shared);
    let before = host.snapshot();
    let (name, other) = (host.vf_interface(VF0).unwrap(), host.vf_interface(VF1).unwrap());
    let (pod, killed) = (PodNetnsFixture::new(), PodNetnsFixture::new());
    add(&host, &pod, json!({})).unwrap();
    // An ADD for VF1 is killed right after it saved the lease.
    let more = ib_sriov_config(json!({"deviceID": VF1}));
    let call = host.call("ADD", ("c2", "net1"), &killed.path, &more);
    let last = Cell::new(0);
    let watch = |point: FailPoint| {
        last.set(last.get() + usize::from(point == FailPoint::Journaled));
        if last.get() == 3 {
            resume_unwind(Box::new("killed"));
        }
    };
    let context = CniContext { fail_point: &watch, ..host.context() };
    catch_unwind(AssertUnwindSafe(|| host.run_on(&context, PluginType::IbSriov, &call))).unwrap_err();
    // Give VF1's interface the original name of VF0's. The kernel does so when it recreates an interface,
    // because it chooses the lowest free name.
    host_ip(&["link", "set", "dev", &other, "down"]);
    host_ip(&["link", "set", "dev", &other, "name", &name]);
    del(&host, &pod, json!({})).unwrap();
    assert_eq!(host.vf_interface(VF0).unwrap(), name);
    assert!(host.vf_interface(VF1).unwrap().starts_with("vfdev"));
    host.run(PluginType::IbSriov, "DEL", ("c2", "net1"), &killed.path, &more).unwrap();
    assert_eq!(host.snapshot(), before);
}

// Case: cni 33
#[test]
fn a_pod_interface_with_the_same_ifindex_is_untouched() {
    let host = SimHostFixture::new(Shared);
    let pod = PodNetnsFixture::new();
    let name = host.vf_interface(VF0).unwrap();
    let index = host_ip(&["link", "show", "dev", &name])[0]["ifindex"].as_u64().unwrap().to_string();
    pod.ip(&["link", "add", "eth0", "index", &index, "type", "bridge"]);
    let eth0 = pod.interface("eth0");
    add(&host, &pod, json!({})).unwrap();
    assert_eq!(pod.interface("eth0"), eth0);
    assert_ne!(pod.interface("net1")["address"], eth0["address"]);
    del(&host, &pod, json!({})).unwrap();
    assert_eq!(pod.interface("eth0"), eth0);
}

// Case: cni 58
#[test]
fn del_succeeds_after_the_pod_renamed_or_deleted_its_interface() {
    let host = SimHostFixture::new(Shared);
    let before = host.snapshot();
    for spoil in
        [["link", "set", "dev", "net1", "name", "mine"], ["link", "delete", "dev", "net1", "type", "veth"]]
    {
        let pod = PodNetnsFixture::new();
        add(&host, &pod, json!({})).unwrap();
        pod.ip(&["link", "set", "dev", "net1", "down"]);
        pod.ip(&spoil);
        del(&host, &pod, json!({})).unwrap();
        host.hardware.refresh().unwrap();
        assert_eq!((pod.link_names(), host.snapshot()), (vec![], before.clone()));
    }
}

#[test]
fn del_restores_the_vf_after_the_namespace_is_gone() {
    for mode in [Shared, Exclusive] {
        let host = SimHostFixture::new(mode);
        host.install_ipam_script("lease", "");
        let before = host.snapshot();
        let more = json!({"runtimeConfig": {"infinibandGUID": REQUESTED_GUID}, "link_state": "enable", "ipam": {"type": "lease"}});
        let mut pod = PodNetnsFixture::new();
        add(&host, &pod, more.clone()).unwrap();
        let path = pod.path.clone();
        pod.delete_netns();
        wait_until(|| host.vf_interface(VF0).is_some());
        host.run(PluginType::IbSriov, "DEL", NET1, &path, &ib_sriov_config(more)).unwrap();
        assert_eq!(host.snapshot(), before, "{mode}");
    }
}

// Case: cni 53, cni 59
#[test]
fn a_late_del_does_not_touch_the_next_owner() {
    let host = SimHostFixture::new(Exclusive);
    let before = host.snapshot();
    let mut first = PodNetnsFixture::new();
    add(&host, &first, with_guid()).unwrap();
    // While the first owner's namespace exists, an ADD for the same function must fail.
    let second = PodNetnsFixture::new();
    let c2 = ("c2", "net1");
    let requested = json!({"runtimeConfig": {"infinibandGUID": "02:00:00:00:00:00:00:77"}});
    let error = host
        .run(PluginType::IbSriov, "ADD", c2, &second.path, &ib_sriov_config(requested.clone()))
        .unwrap_err();
    assert!(error.to_string().contains("already attached to container c1"), "{error}");
    assert_eq!(error.code(), 11);

    let path = first.path.clone();
    first.delete_netns();
    wait_until(|| host.vf_interface(VF0).is_some());
    host.run(PluginType::IbSriov, "ADD", c2, &second.path, &ib_sriov_config(requested.clone())).unwrap();
    host.run(PluginType::IbSriov, "DEL", NET1, &path, &ib_sriov_config(with_guid())).unwrap();
    assert_eq!(second.link_names(), ["net1"]);
    assert_eq!(host.hardware.vfs(pci(PF)).unwrap()[0].port_guid, Some(guid(0x0200_0000_0000_0077)));
    // DEL of the second pod must restore the original GUIDs, not those of the first pod.
    host.run(PluginType::IbSriov, "DEL", c2, &second.path, &ib_sriov_config(requested)).unwrap();
    assert_eq!(host.snapshot(), before);
}

// Case: cni 56
#[test]
fn del_without_a_journal_uses_the_lease_of_the_vf() {
    let host = SimHostFixture::new(Exclusive);
    let pod = PodNetnsFixture::new();
    let before = host.snapshot();
    del(&host, &pod, with_guid()).unwrap();
    assert_eq!(host.snapshot(), before);
    for damage in [None, Some("{"), Some("")] {
        add(&host, &pod, with_guid()).unwrap();
        let journal = host.root.state("journal").join("c1:net1:ib-sriov.json");
        match damage {
            None => fs::remove_file(&journal).unwrap(),
            Some(text) => fs::write(&journal, text).unwrap(),
        }
        del(&host, &pod, with_guid()).unwrap();
        assert_eq!((pod.link_names(), host.snapshot()), (vec![], before.clone()), "{damage:?}");
    }
}

// Case: cni 64
#[test]
fn check_fails_when_link_state_guid_or_name_changed() {
    let host = SimHostFixture::new(Exclusive);
    let pod = PodNetnsFixture::new();
    let more = json!({"runtimeConfig": {"infinibandGUID": REQUESTED_GUID}, "link_state": "enable"});
    let result = add(&host, &pod, more.clone()).unwrap();
    let checked = ib_sriov_config(with(&more, "prevResult", &result));
    let check = || host.run(PluginType::IbSriov, "CHECK", NET1, &pod.path, &checked);
    check().unwrap();
    let fails = |words: &str| {
        let error = check().unwrap_err();
        assert!(error.to_string().contains(words), "{words}: {error}");
    };
    let pf = pci(PF);
    host.hardware.set_vf_link_state(pf, 0, VfLinkState::Auto).unwrap();
    fails("another link state");
    host.hardware.set_vf_link_state(pf, 0, VfLinkState::Enable).unwrap();
    host.hardware.set_vf_guid(pf, 0, ferroband_kernel::rtnetlink::GuidKind::Port, guid(5)).unwrap();
    fails("another GUID");
    host.hardware
        .set_vf_guid(pf, 0, ferroband_kernel::rtnetlink::GuidKind::Port, guid(0x0123_4567_89ab_cdef))
        .unwrap();
    check().unwrap();
    pod.ip(&["link", "set", "dev", "net1", "down"]);
    pod.ip(&["link", "set", "dev", "net1", "name", "mine"]);
    fails("another name");
    del(&host, &pod, more).unwrap();
}

// Case: cni 51
#[test]
fn add_finds_the_interface_in_either_namespace_after_the_rdma_move() {
    for follows in [false, true] {
        let host = SimHostFixture::with_profile(|profile| {
            profile.netns_mode = Exclusive;
            profile.ipoib_follows = follows;
        });
        host.install_ipam_script("lease", "");
        let pod = PodNetnsFixture::new();
        let before = host.snapshot();
        let more = json!({"rdmaIsolation": true, "ipam": {"type": "lease"}, "runtimeConfig": {"infinibandGUID": REQUESTED_GUID}});
        let result = add(&host, &pod, more.clone()).unwrap();
        assert_eq!(
            (pod.link_names(), pod.addresses("net1")),
            (vec!["net1".into()], vec!["10.9.0.7/24".into()])
        );
        let [device] = host.rdma_devices(Some(&pod)).try_into().unwrap();
        assert!(!host.rdma_devices(None).contains(&device), "{device} must be only in the pod");
        host.run(
            PluginType::IbSriov,
            "CHECK",
            NET1,
            &pod.path,
            &ib_sriov_config(with(&more, "prevResult", &result)),
        )
        .unwrap();
        del(&host, &pod, more).unwrap();
        assert_eq!((pod.link_names(), host.snapshot()), (vec![], before), "follows: {follows}");
    }
}

#[test]
fn without_rdma_isolation_the_nodes_mode_decides() {
    let host = SimHostFixture::new(Exclusive);
    let pod = PodNetnsFixture::new();
    add(&host, &pod, json!({})).unwrap();
    assert_eq!(host.rdma_devices(Some(&pod)).len(), 1);
    del(&host, &pod, json!({})).unwrap();
    add(&host, &pod, json!({"rdmaIsolation": false})).unwrap();
    assert_eq!(host.rdma_devices(Some(&pod)), [""; 0]);
    del(&host, &pod, json!({"rdmaIsolation": false})).unwrap();
}

// Case: cni 53
#[test]
fn a_failed_add_restores_everything() {
    let host = SimHostFixture::new(Exclusive);
    // ADD fails late, because of IPAM, the MTU or a taken interface name. Each time everything must be
    // restored.
    host.install_ipam_script("broken", "exit 1;");
    let before = host.snapshot();
    let all = json!({"runtimeConfig": {"infinibandGUID": REQUESTED_GUID}, "link_state": "enable", "rdmaIsolation": true,
        "ipam": {"type": "broken"}});
    let pod = PodNetnsFixture::new();
    add(&host, &pod, all.clone()).unwrap_err();
    assert_eq!(
        (pod.link_names(), host.rdma_devices(Some(&pod)), host.snapshot()),
        (vec![], vec![], before.clone())
    );
    let too_big = with(&all, "mtu", &json!(1 << 30));
    add(&host, &pod, too_big).unwrap_err();
    assert_eq!(
        (pod.link_names(), host.rdma_devices(Some(&pod)), host.snapshot()),
        (vec![], vec![], before.clone())
    );
    pod.ip(&["link", "add", "net1", "type", "bridge"]);
    add(&host, &pod, all).unwrap_err();
    assert_eq!((pod.link_names(), host.snapshot()), (vec!["net1".into()], before));
}

// Case: cni 53
#[test]
fn killed_at_every_point_with_shared_rdma_leaves_nothing() {
    kill_at_every_point(Shared, false);
}

// Case: cni 53
#[test]
fn killed_at_every_point_with_exclusive_rdma_leaves_nothing() {
    kill_at_every_point(Exclusive, false);
}

// Case: cni 53
#[test]
fn killed_at_every_point_when_the_interface_follows_the_rdma_device_leaves_nothing() {
    kill_at_every_point(Exclusive, true);
}

fn kill_at_every_point(mode: ferroband_kernel::NetnsMode, follows: bool) {
    let host = SimHostFixture::with_profile(|profile| {
        profile.netns_mode = mode;
        profile.ipoib_follows = follows;
    });
    host.install_ipam_script("lease", "");
    let more = json!({"runtimeConfig": {"infinibandGUID": REQUESTED_GUID}, "link_state": "enable", "mtu": 1400,
            "ipam": {"type": "lease"}});
    let pod = PodNetnsFixture::new();
    let before = host.snapshot();
    let killed = |command: &str, last: usize| {
        let call = host.call(command, NET1, &pod.path, &ib_sriov_config(more.clone()));
        let run = |watch: &dyn Fn(FailPoint)| {
            host.run_on(&CniContext { fail_point: watch, ..host.context() }, PluginType::IbSriov, &call)
        };
        run_killed_at_point(last, run)
    };
    let mut point = 0;
    while killed("ADD", point + 1).is_none() {
        point += 1;
        del(&host, &pod, more.clone()).unwrap();
        assert_eq!(
            (pod.link_names(), host.snapshot()),
            (vec![], before.clone()),
            "{mode}: ADD killed at {point}"
        );
    }
    assert!(point > 8, "only {point} points");
    for point in 1.. {
        let done = killed("DEL", point).map(|done| done.unwrap());
        del(&host, &pod, more.clone()).unwrap();
        assert_eq!(
            (pod.link_names(), host.snapshot()),
            (vec![], before.clone()),
            "{mode}: DEL killed at {point}"
        );
        if done.is_some() {
            assert!(point > 4, "only {point} points");
            break;
        }
        add(&host, &pod, more.clone()).unwrap();
    }
}

// Case: cni 52
#[test]
fn add_waits_for_an_interface_that_appears_late_under_another_name() {
    // Hide the VF's interface in another namespace for 1.5 seconds. ADD must wait until it is back.
    let host = SimHostFixture::new(Shared);
    let name = host.vf_interface(VF0).unwrap();
    let elsewhere = PodNetnsFixture::new();
    let pod = PodNetnsFixture::new();
    let netns = elsewhere.path.clone();
    let root = host.root.clone();
    host_ip(&["link", "set", "dev", &name, "netns", &netns]);
    let here = format!("/proc/{}/task/{}/ns/net", std::process::id(), nix::unistd::gettid());
    let inside = elsewhere.netns.as_ref().unwrap().try_clone().unwrap();
    let late = thread::spawn(move || {
        thread::sleep(std::time::Duration::from_millis(1500));
        inside
            .run(|| {
                host_ip(&["link", "set", "dev", &name, "name", "udevs0"]);
                host_ip(&["link", "set", "dev", "udevs0", "netns", &here]);
            })
            .unwrap();
        drop(root);
    });
    add(&host, &pod, json!({})).unwrap();
    late.join().unwrap();
    assert_eq!(pod.link_names(), ["net1"]);
    del(&host, &pod, json!({})).unwrap();
    assert_eq!(host.vf_interface(VF0).as_deref(), Some("udevs0"));
}

// Case: cni 105
#[test]
fn gc_restores_vfs_without_a_valid_attachment() {
    let host = SimHostFixture::new(Exclusive);
    let before = host.snapshot();
    let pod = PodNetnsFixture::new();
    let gc = |valid: Value| {
        let more = json!({"cni.dev/valid-attachments": valid});
        host.run(PluginType::IbSriov, "GC", ("", ""), "", &ib_sriov_config(more)).unwrap();
    };
    for lost in [false, true] {
        add(&host, &pod, with_guid()).unwrap();
        gc(json!([{"containerID": "c1", "ifname": "net1"}]));
        assert_eq!(pod.link_names(), ["net1"]);
        if lost {
            fs::remove_file(host.root.state("journal").join("c1:net1:ib-sriov.json")).unwrap();
        }
        gc(json!([]));
        let locks = host.root.run("ferroband/lock").join("c1:net1:ib-sriov");
        fs::remove_file(locks).ok();
        assert_eq!((pod.link_names(), host.snapshot()), (vec![], before.clone()), "journal lost: {lost}");
    }
}

// Case: cni 62
#[test]
fn parallel_adds_keep_the_rdma_device_names_of_each_vf() {
    let host = SimHostFixture::new(Exclusive);
    let before = host.snapshot();
    let pods: Vec<_> = (0..4).map(|_| PodNetnsFixture::new()).collect();
    let here = ferroband_kernel::Netns::current().unwrap();
    let at_once = |command: &str| {
        thread::scope(|scope| {
            for (number, pod) in (0..).zip(&pods) {
                let (host, here) = (&host, &here);
                scope.spawn(move || {
                    let guid = format!("02:00:00:00:00:00:0b:0{number}");
                    let function = host.vf_address(number).to_string();
                    let more = json!({"deviceID": function, "runtimeConfig": {"infinibandGUID": guid}});
                    let container = format!("c{number}");
                    let run = || {
                        host.run(
                            PluginType::IbSriov,
                            command,
                            (&container, "net1"),
                            &pod.path,
                            &ib_sriov_config(more),
                        )
                    };
                    here.run(run).unwrap().unwrap();
                });
            }
        });
    };
    for _ in 0..2 {
        at_once("ADD");
        for pod in &pods {
            assert_eq!((pod.link_names(), host.rdma_devices(Some(pod)).len()), (vec!["net1".to_owned()], 1));
        }
        at_once("DEL");
        assert_eq!(host.snapshot(), before);
    }
}

#[test]
fn two_vfs_of_one_pod_are_attached_and_deleted_independently() {
    let host = SimHostFixture::new(Exclusive);
    let before = host.snapshot();
    let pod = PodNetnsFixture::new();
    let second = json!({"deviceID": VF1, "runtimeConfig": {"infinibandGUID": "02:00:00:00:00:00:00:78"}});
    let of_second = ("c1", "net2");
    add(&host, &pod, with_guid()).unwrap();
    host.run(PluginType::IbSriov, "ADD", of_second, &pod.path, &ib_sriov_config(second.clone())).unwrap();
    assert_eq!(pod.link_names(), ["net1", "net2"]);
    assert_eq!(host.rdma_devices(Some(&pod)).len(), 2);
    del(&host, &pod, with_guid()).unwrap();
    assert_eq!(pod.link_names(), ["net2"]);
    host.run(PluginType::IbSriov, "DEL", of_second, &pod.path, &ib_sriov_config(second)).unwrap();
    assert_eq!(host.snapshot(), before);
}
