//! `ib-sriov` on simulated adapters.

use crate::crash::run_killed_at_point;
use crate::rack::{PF, SimHostFixture, VF0, VF1, guid, ib_sriov_config, pci};
use crate::stage::{PodNetnsFixture, host_ip, wait_until};
use ferroband_attach::{CniContext, Error, FailPoint, PluginType};
use ferroband_kernel::NetnsMode::{Exclusive, Shared};
use ferroband_kernel::rtnetlink::VfLinkState;
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

pub const NET1: (&str, &str) = ("c1", "net1");
const ASKED: &str = "01:23:45:67:89:ab:cd:ef";

fn add(rack: &SimHostFixture, pod: &PodNetnsFixture, more: Value) -> Result<Value, Error> {
    rack.run(PluginType::IbSriov, "ADD", NET1, &pod.path, &ib_sriov_config(more))
}

fn del(rack: &SimHostFixture, pod: &PodNetnsFixture, more: Value) -> Result<Value, Error> {
    rack.run(PluginType::IbSriov, "DEL", NET1, &pod.path, &ib_sriov_config(more))
}

fn with_guid() -> Value {
    json!({"runtimeConfig": {"infinibandGUID": ASKED}})
}

/// The points that a call passes.
fn points(rack: &SimHostFixture, pod: &PodNetnsFixture, command: &str, more: Value) -> Vec<FailPoint> {
    let seen = RefCell::new(Vec::new());
    let watch = |point: FailPoint| seen.borrow_mut().push(point);
    let machine = CniContext { fail_point: &watch, ..rack.context() };
    rack.run_on(&machine, PluginType::IbSriov, &rack.call(command, NET1, &pod.path, &ib_sriov_config(more)))
        .unwrap();
    seen.into_inner()
}

#[test]
fn case_55_a_function_comes_and_goes() {
    let rack = SimHostFixture::new(Shared);
    rack.install_ipam_script("lease", "");
    let pod = PodNetnsFixture::new();
    let before = rack.snapshot();
    let ipam = json!({"ipam": {"type": "lease"}, "mtu": 1400, "dns": {"domain": "of.config"}});
    let result = add(&rack, &pod, ipam.clone()).unwrap();
    assert_eq!(pod.link_names(), ["net1"]);
    let link = pod.interface("net1");
    assert!(link["flags"].as_array().unwrap().contains(&json!("UP")) && link["mtu"] == 1400, "{link}");
    assert_eq!(pod.addresses("net1"), ["10.9.0.7/24"]);
    assert_eq!(rack.vf_interface(VF0), None, "it left the host");
    let told = &result["interfaces"][0];
    assert_eq!((&told["name"], &told["pciID"], &told["mtu"]), (&json!("net1"), &json!(VF0), &json!(1400)));
    assert_eq!((&told["mac"], &told["sandbox"]), (&link["address"], &json!(pod.path)));
    assert_eq!(result["ips"][0]["interface"], 0);
    // Case 63: the name servers are IPAM's.
    assert_eq!(result["dns"], json!({"nameservers": ["10.9.0.53"]}));
    rack.run(
        PluginType::IbSriov,
        "CHECK",
        NET1,
        &pod.path,
        &ib_sriov_config(with(&ipam, "prevResult", &result)),
    )
    .unwrap();

    del(&rack, &pod, ipam.clone()).unwrap();
    assert_eq!((pod.link_names(), rack.snapshot()), (vec![], before));
    del(&rack, &pod, ipam).unwrap();
}

fn with(config: &Value, key: &str, value: &Value) -> Value {
    let mut config = config.clone();
    config[key] = value.clone();
    config
}

#[test]
fn cases_41_50_and_55_a_guid_is_set_taken_on_and_given_back() {
    let rack = SimHostFixture::new(Shared);
    let pod = PodNetnsFixture::new();
    let before = rack.snapshot();
    let all = json!({"link_state": "disable", "runtimeConfig": {"infinibandGUID": ASKED}});
    let seen = points(&rack, &pod, "ADD", all.clone());
    // Case 50: state, two GUIDs, rebind, then the interface.
    let set: Vec<_> = seen.iter().filter(|point| **point != FailPoint::Journaled).collect();
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
    let vf = rack.hardware.vfs(pci(PF)).unwrap()[0];
    let asked = Some(guid(0x0123_4567_89ab_cdef));
    assert_eq!((vf.node_guid, vf.port_guid, vf.link_state), (asked, asked, Some(VfLinkState::Disable)));
    assert_eq!(pod.link_names(), ["net1"]);
    let seen = points(&rack, &pod, "DEL", all);
    assert_eq!(
        seen.iter().filter(|point| **point == FailPoint::DeviceOpDone).count(),
        1,
        "one rebind: {seen:?}"
    );
    assert_eq!(rack.snapshot(), before);
}

#[test]
fn case_42_a_guid_that_is_there_costs_nothing() {
    let rack = SimHostFixture::new(Shared);
    let own = guid(0x0123_4567_89ab_cdef);
    rack.set_guids(0, own, own);
    let pod = PodNetnsFixture::new();
    let before = rack.snapshot();
    for command in ["ADD", "DEL"] {
        let seen = points(&rack, &pod, command, with_guid());
        assert!(
            !seen.contains(&FailPoint::VfConfigured) && !seen.contains(&FailPoint::DeviceOpDone),
            "{command}: {seen:?}"
        );
    }
    assert_eq!(rack.snapshot(), before);
}

#[test]
fn case_43_a_function_without_a_guid_is_refused() {
    let rack = SimHostFixture::new(Shared);
    for unset in [guid(0), guid(u64::MAX)] {
        rack.set_guids(0, unset, unset);
        let (pod, before) = (PodNetnsFixture::new(), rack.snapshot());
        let name = rack.vf_interface(VF0).unwrap();
        let error = add(&rack, &pod, json!({})).unwrap_err();
        assert!(error.to_string().contains(&format!("VF {name} GUID is not valid")), "{error}");
        assert_eq!((pod.link_names(), rack.snapshot()), (vec![], before));
        // One that is asked for is as good; afterwards the function has none again.
        add(&rack, &pod, with_guid()).unwrap();
        del(&rack, &pod, with_guid()).unwrap();
        let vf = rack.hardware.vfs(pci(PF)).unwrap()[0];
        assert_eq!((vf.node_guid, vf.port_guid), (None, None));
    }
}

#[test]
fn case_44_an_ethernet_function_is_refused() {
    let rack = SimHostFixture::with_profile(|profile| {
        profile.hcas[0].ports[0].link_layer = ferroband_model::LinkLayer::Ethernet;
    });
    let (pod, before) = (PodNetnsFixture::new(), rack.snapshot());
    for more in [json!({}), with_guid()] {
        let error = add(&rack, &pod, more).unwrap_err();
        assert!(error.to_string().contains("of an Ethernet adapter"), "{error}");
    }
    assert_eq!(rack.snapshot(), before);
}

#[test]
fn cases_37_and_45_to_48_what_cannot_be_given() {
    let rack = SimHostFixture::new(Shared);
    let pod = PodNetnsFixture::new();
    let refused = |more: Value, words: &str| {
        let before = rack.snapshot();
        let error = add(&rack, &pod, more).unwrap_err();
        assert!(error.to_string().contains(words), "{words}: {error}");
        assert_eq!((pod.link_names(), rack.snapshot()), (vec![], before), "after: {error}");
        error.code()
    };
    assert_eq!(refused(json!({"deviceID": "0000:86:1f.7"}), "no PCI function 0000:86:1f.7"), 111);
    assert_eq!(refused(json!({"deviceID": PF}), "is not a virtual function"), 111);
    assert_eq!(refused(json!({"vfioPciMode": true}), "vfioPciMode is set"), 111);
    assert_eq!(refused(json!({"rdmaIsolation": true}), "shared by all namespaces"), 7);
    assert_eq!(refused(json!({"ipam": {"type": "dhcp"}}), "dhcp"), 7);
    let marked = json!({"cni": {"mellanox.infiniband.app": "configured"}});
    assert_eq!(refused(json!({"ibKubernetesEnabled": true, "args": marked}), "was given no GUID"), 7);
    // Case 10: the oldest results cannot say that there is no address.
    assert_eq!(refused(json!({"cniVersion": "0.2.0"}), "must have an address"), 7);
}

#[test]
fn cases_46_47_and_63_functions_of_virtual_machines() {
    let rack = SimHostFixture::new(Shared);
    rack.install_ipam_script("lease", "");
    let pod = PodNetnsFixture::new();
    let vfio = |function: &str| {
        let function = pci(function);
        rack.hardware.unbind_driver(function).unwrap();
        rack.hardware.set_driver_override(function, Some("vfio-pci")).unwrap();
        rack.hardware.probe_driver(function).unwrap();
    };
    vfio(VF0);
    let before = rack.snapshot();
    for mode in [true, false] {
        let more = json!({"vfioPciMode": mode, "ipam": {"type": "lease"},
            "runtimeConfig": {"infinibandGUID": ASKED}});
        let result = add(&rack, &pod, more.clone()).unwrap();
        assert!(result.get("ips").is_none() && result["interfaces"][0]["name"] == "net1", "{result}");
        assert_eq!(pod.link_names(), [""; 0]);
        let vf = rack.hardware.vfs(pci(PF)).unwrap()[0];
        assert_eq!(vf.node_guid, Some(guid(0x0123_4567_89ab_cdef)));
        rack.run(
            PluginType::IbSriov,
            "CHECK",
            NET1,
            &pod.path,
            &ib_sriov_config(with(&more, "prevResult", &result)),
        )
        .unwrap();
        let seen = points(&rack, &pod, "DEL", more);
        assert!(!seen.contains(&FailPoint::DeviceOpDone), "no rebind: {seen:?}");
        assert_eq!(rack.snapshot(), before);
    }
}

#[test]
fn case_54_altnames_come_back() {
    let rack = SimHostFixture::new(Shared);
    let name = rack.vf_interface(VF0).unwrap();
    for altname in ["rail0", "ibp134s0f0v0", "clash"] {
        host_ip(&["link", "property", "add", "dev", &name, "altname", altname]);
    }
    let pod = PodNetnsFixture::new();
    pod.ip(&["link", "add", "clash", "type", "bridge"]);
    let before = rack.snapshot();
    add(&rack, &pod, json!({})).unwrap();
    let inside = pod.interface("net1");
    let altnames: Vec<_> = inside["altnames"].as_array().unwrap().iter().collect();
    assert!(altnames.contains(&&json!("rail0")) && !altnames.contains(&&json!("clash")), "{altnames:?}");
    del(&rack, &pod, json!({})).unwrap();
    assert_eq!(rack.snapshot(), before);
}

#[test]
fn softib_3_2_a_name_that_blocks_the_way_back_is_got_around() {
    let rack = SimHostFixture::new(Shared);
    let name = rack.vf_interface(VF0).unwrap();
    let pod = PodNetnsFixture::new();
    let before = rack.snapshot();
    add(&rack, &pod, json!({})).unwrap();
    // Upstream's DEL stops here, and never succeeds again.
    host_ip(&["link", "add", "foreign", "type", "bridge"]);
    host_ip(&["link", "property", "add", "dev", "foreign", "altname", &name]);
    host_ip(&["link", "property", "add", "dev", "foreign", "altname", "net1"]);
    del(&rack, &pod, json!({})).unwrap();
    assert_eq!(pod.link_names(), [""; 0]);
    let called = rack.vf_interface(VF0).unwrap();
    assert_ne!(called, name);
    host_ip(&["link", "delete", "foreign"]);
    host_ip(&["link", "set", "dev", &called, "down"]);
    host_ip(&["link", "set", "dev", &called, "name", &name]);
    if before != rack.snapshot() {
        host_ip(&["link", "set", "dev", &name, "up"]);
    }
    assert_eq!(rack.snapshot(), before);
}

#[test]
fn a_function_whose_add_was_killed_makes_way_for_the_one_whose_name_it_has() {
    let rack = SimHostFixture::new(Shared);
    let before = rack.snapshot();
    let (name, other) = (rack.vf_interface(VF0).unwrap(), rack.vf_interface(VF1).unwrap());
    let (pod, killed) = (PodNetnsFixture::new(), PodNetnsFixture::new());
    add(&rack, &pod, json!({})).unwrap();
    // Killed when it had written down that it has the function.
    let more = ib_sriov_config(json!({"deviceID": VF1}));
    let call = rack.call("ADD", ("c2", "net1"), &killed.path, &more);
    let last = Cell::new(0);
    let watch = |point: FailPoint| {
        last.set(last.get() + usize::from(point == FailPoint::Journaled));
        if last.get() == 3 {
            resume_unwind(Box::new("killed"));
        }
    };
    let machine = CniContext { fail_point: &watch, ..rack.context() };
    catch_unwind(AssertUnwindSafe(|| rack.run_on(&machine, PluginType::IbSriov, &call))).unwrap_err();
    // The kernel gives an interface that is made anew the lowest free name, which is the first one's.
    host_ip(&["link", "set", "dev", &other, "down"]);
    host_ip(&["link", "set", "dev", &other, "name", &name]);
    del(&rack, &pod, json!({})).unwrap();
    assert_eq!(rack.vf_interface(VF0).unwrap(), name);
    assert!(rack.vf_interface(VF1).unwrap().starts_with("vfdev"));
    rack.run(PluginType::IbSriov, "DEL", ("c2", "net1"), &killed.path, &more).unwrap();
    assert_eq!(rack.snapshot(), before);
}

#[test]
fn case_33_an_index_that_the_pod_has_already() {
    let rack = SimHostFixture::new(Shared);
    let pod = PodNetnsFixture::new();
    let name = rack.vf_interface(VF0).unwrap();
    let index = host_ip(&["link", "show", "dev", &name])[0]["ifindex"].as_u64().unwrap().to_string();
    pod.ip(&["link", "add", "eth0", "index", &index, "type", "bridge"]);
    let eth0 = pod.interface("eth0");
    add(&rack, &pod, json!({})).unwrap();
    assert_eq!(pod.interface("eth0"), eth0);
    assert_ne!(pod.interface("net1")["address"], eth0["address"]);
    del(&rack, &pod, json!({})).unwrap();
    assert_eq!(pod.interface("eth0"), eth0);
}

#[test]
fn case_58_a_pod_that_took_its_interface_apart() {
    let rack = SimHostFixture::new(Shared);
    let before = rack.snapshot();
    for spoil in
        [["link", "set", "dev", "net1", "name", "mine"], ["link", "delete", "dev", "net1", "type", "veth"]]
    {
        let pod = PodNetnsFixture::new();
        add(&rack, &pod, json!({})).unwrap();
        pod.ip(&["link", "set", "dev", "net1", "down"]);
        pod.ip(&spoil);
        del(&rack, &pod, json!({})).unwrap();
        rack.hardware.refresh().unwrap();
        assert_eq!((pod.link_names(), rack.snapshot()), (vec![], before.clone()));
    }
}

#[test]
fn a_sandbox_that_ends_without_a_word() {
    for mode in [Shared, Exclusive] {
        let rack = SimHostFixture::new(mode);
        rack.install_ipam_script("lease", "");
        let before = rack.snapshot();
        let more = json!({"runtimeConfig": {"infinibandGUID": ASKED}, "link_state": "enable", "ipam": {"type": "lease"}});
        let mut pod = PodNetnsFixture::new();
        add(&rack, &pod, more.clone()).unwrap();
        let path = pod.path.clone();
        pod.delete_netns();
        wait_until(|| rack.vf_interface(VF0).is_some());
        rack.run(PluginType::IbSriov, "DEL", NET1, &path, &ib_sriov_config(more)).unwrap();
        assert_eq!(rack.snapshot(), before, "{mode}");
    }
}

#[test]
fn case_59_a_late_del_leaves_the_next_owner_alone() {
    let rack = SimHostFixture::new(Exclusive);
    let before = rack.snapshot();
    let mut first = PodNetnsFixture::new();
    add(&rack, &first, with_guid()).unwrap();
    // Alive, the first owner keeps it.
    let second = PodNetnsFixture::new();
    let c2 = ("c2", "net1");
    let asked = json!({"runtimeConfig": {"infinibandGUID": "02:00:00:00:00:00:00:77"}});
    let taken =
        rack.run(PluginType::IbSriov, "ADD", c2, &second.path, &ib_sriov_config(asked.clone())).unwrap_err();
    assert!(taken.to_string().contains("given to container c1"), "{taken}");
    assert_eq!(taken.code(), 11);

    let path = first.path.clone();
    first.delete_netns();
    wait_until(|| rack.vf_interface(VF0).is_some());
    rack.run(PluginType::IbSriov, "ADD", c2, &second.path, &ib_sriov_config(asked.clone())).unwrap();
    rack.run(PluginType::IbSriov, "DEL", NET1, &path, &ib_sriov_config(with_guid())).unwrap();
    assert_eq!(second.link_names(), ["net1"]);
    assert_eq!(rack.hardware.vfs(pci(PF)).unwrap()[0].port_guid, Some(guid(0x0200_0000_0000_0077)));
    // Case 53: what is put back is the function's own, not the first pod's.
    rack.run(PluginType::IbSriov, "DEL", c2, &second.path, &ib_sriov_config(asked)).unwrap();
    assert_eq!(rack.snapshot(), before);
}

#[test]
fn case_56_without_a_journal_the_functions_own_record_counts() {
    let rack = SimHostFixture::new(Exclusive);
    let pod = PodNetnsFixture::new();
    let before = rack.snapshot();
    del(&rack, &pod, with_guid()).unwrap();
    assert_eq!(rack.snapshot(), before);
    for damage in [None, Some("{"), Some("")] {
        add(&rack, &pod, with_guid()).unwrap();
        let journal = rack.root.state("journal").join("c1:net1:ib-sriov.json");
        match damage {
            None => fs::remove_file(&journal).unwrap(),
            Some(text) => fs::write(&journal, text).unwrap(),
        }
        del(&rack, &pod, with_guid()).unwrap();
        assert_eq!((pod.link_names(), rack.snapshot()), (vec![], before.clone()), "{damage:?}");
    }
}

#[test]
fn case_64_check_sees_what_was_changed() {
    let rack = SimHostFixture::new(Exclusive);
    let pod = PodNetnsFixture::new();
    let more = json!({"runtimeConfig": {"infinibandGUID": ASKED}, "link_state": "enable"});
    let result = add(&rack, &pod, more.clone()).unwrap();
    let checked = ib_sriov_config(with(&more, "prevResult", &result));
    let check = || rack.run(PluginType::IbSriov, "CHECK", NET1, &pod.path, &checked);
    check().unwrap();
    let fails = |words: &str| {
        let error = check().unwrap_err();
        assert!(error.to_string().contains(words), "{words}: {error}");
    };
    let pf = pci(PF);
    rack.hardware.set_vf_link_state(pf, 0, VfLinkState::Auto).unwrap();
    fails("another link state");
    rack.hardware.set_vf_link_state(pf, 0, VfLinkState::Enable).unwrap();
    rack.hardware.set_vf_guid(pf, 0, ferroband_kernel::rtnetlink::GuidKind::Port, guid(5)).unwrap();
    fails("another GUID");
    rack.hardware
        .set_vf_guid(pf, 0, ferroband_kernel::rtnetlink::GuidKind::Port, guid(0x0123_4567_89ab_cdef))
        .unwrap();
    check().unwrap();
    pod.ip(&["link", "set", "dev", "net1", "down"]);
    pod.ip(&["link", "set", "dev", "net1", "name", "mine"]);
    fails("another name");
    del(&rack, &pod, more).unwrap();
}

#[test]
fn case_51_wherever_the_kernel_makes_the_interface() {
    for follows in [false, true] {
        let rack = SimHostFixture::with_profile(|profile| {
            profile.netns_mode = Exclusive;
            profile.ipoib_follows = follows;
        });
        rack.install_ipam_script("lease", "");
        let pod = PodNetnsFixture::new();
        let before = rack.snapshot();
        let more = json!({"rdmaIsolation": true, "ipam": {"type": "lease"}, "runtimeConfig": {"infinibandGUID": ASKED}});
        let result = add(&rack, &pod, more.clone()).unwrap();
        assert_eq!(
            (pod.link_names(), pod.addresses("net1")),
            (vec!["net1".into()], vec!["10.9.0.7/24".into()])
        );
        let [device] = rack.rdma_devices(Some(&pod)).try_into().unwrap();
        assert!(!rack.rdma_devices(None).contains(&device), "{device} is the pod's alone");
        rack.run(
            PluginType::IbSriov,
            "CHECK",
            NET1,
            &pod.path,
            &ib_sriov_config(with(&more, "prevResult", &result)),
        )
        .unwrap();
        del(&rack, &pod, more).unwrap();
        assert_eq!((pod.link_names(), rack.snapshot()), (vec![], before), "follows: {follows}");
    }
}

#[test]
fn decision_9_isolation_left_out_follows_the_node() {
    let rack = SimHostFixture::new(Exclusive);
    let pod = PodNetnsFixture::new();
    add(&rack, &pod, json!({})).unwrap();
    assert_eq!(rack.rdma_devices(Some(&pod)).len(), 1);
    del(&rack, &pod, json!({})).unwrap();
    add(&rack, &pod, json!({"rdmaIsolation": false})).unwrap();
    assert_eq!(rack.rdma_devices(Some(&pod)), [""; 0]);
    del(&rack, &pod, json!({"rdmaIsolation": false})).unwrap();
}

#[test]
fn case_53_a_failure_after_each_step_leaves_everything_as_it_was() {
    let rack = SimHostFixture::new(Exclusive);
    // No address: the last thing that can fail. And a name that is taken: the last but one.
    rack.install_ipam_script("broken", "exit 1;");
    let before = rack.snapshot();
    let all = json!({"runtimeConfig": {"infinibandGUID": ASKED}, "link_state": "enable", "rdmaIsolation": true,
        "ipam": {"type": "broken"}});
    let pod = PodNetnsFixture::new();
    add(&rack, &pod, all.clone()).unwrap_err();
    assert_eq!(
        (pod.link_names(), rack.rdma_devices(Some(&pod)), rack.snapshot()),
        (vec![], vec![], before.clone())
    );
    let too_big = with(&all, "mtu", &json!(1 << 30));
    add(&rack, &pod, too_big).unwrap_err();
    assert_eq!(
        (pod.link_names(), rack.rdma_devices(Some(&pod)), rack.snapshot()),
        (vec![], vec![], before.clone())
    );
    pod.ip(&["link", "add", "net1", "type", "bridge"]);
    add(&rack, &pod, all).unwrap_err();
    assert_eq!((pod.link_names(), rack.snapshot()), (vec!["net1".into()], before));
}

#[test]
fn case_53_killed_at_every_point_then_del() {
    killed_everywhere(Shared, false);
}

#[test]
fn case_53_killed_at_every_point_with_the_rdma_device() {
    killed_everywhere(Exclusive, false);
}

#[test]
fn case_53_killed_at_every_point_where_the_interface_follows() {
    killed_everywhere(Exclusive, true);
}

fn killed_everywhere(mode: ferroband_kernel::NetnsMode, follows: bool) {
    let rack = SimHostFixture::with_profile(|profile| {
        profile.netns_mode = mode;
        profile.ipoib_follows = follows;
    });
    rack.install_ipam_script("lease", "");
    let more = json!({"runtimeConfig": {"infinibandGUID": ASKED}, "link_state": "enable", "mtu": 1400,
            "ipam": {"type": "lease"}});
    let pod = PodNetnsFixture::new();
    let before = rack.snapshot();
    let killed = |command: &str, last: usize| {
        let call = rack.call(command, NET1, &pod.path, &ib_sriov_config(more.clone()));
        let run = |watch: &dyn Fn(FailPoint)| {
            rack.run_on(&CniContext { fail_point: watch, ..rack.context() }, PluginType::IbSriov, &call)
        };
        run_killed_at_point(last, run)
    };
    let mut point = 0;
    while killed("ADD", point + 1).is_none() {
        point += 1;
        del(&rack, &pod, more.clone()).unwrap();
        assert_eq!(
            (pod.link_names(), rack.snapshot()),
            (vec![], before.clone()),
            "{mode}: ADD killed at {point}"
        );
    }
    assert!(point > 8, "only {point} points");
    for point in 1.. {
        let done = killed("DEL", point).map(|done| done.unwrap());
        del(&rack, &pod, more.clone()).unwrap();
        assert_eq!(
            (pod.link_names(), rack.snapshot()),
            (vec![], before.clone()),
            "{mode}: DEL killed at {point}"
        );
        if done.is_some() {
            assert!(point > 4, "only {point} points");
            break;
        }
        add(&rack, &pod, more.clone()).unwrap();
    }
}

#[test]
fn case_52_an_interface_that_comes_late_and_is_renamed() {
    // The driver's interface is hidden from us for a while: somebody has it in another namespace.
    let rack = SimHostFixture::new(Shared);
    let name = rack.vf_interface(VF0).unwrap();
    let elsewhere = PodNetnsFixture::new();
    let pod = PodNetnsFixture::new();
    let netns = elsewhere.path.clone();
    let root = rack.root.clone();
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
    add(&rack, &pod, json!({})).unwrap();
    late.join().unwrap();
    assert_eq!(pod.link_names(), ["net1"]);
    del(&rack, &pod, json!({})).unwrap();
    assert_eq!(rack.vf_interface(VF0).as_deref(), Some("udevs0"));
}

#[test]
fn gc_takes_back_what_no_sandbox_has() {
    let rack = SimHostFixture::new(Exclusive);
    let before = rack.snapshot();
    let pod = PodNetnsFixture::new();
    let gc = |valid: Value| {
        let more = json!({"cni.dev/valid-attachments": valid});
        rack.run(PluginType::IbSriov, "GC", ("", ""), "", &ib_sriov_config(more)).unwrap();
    };
    for lost in [false, true] {
        add(&rack, &pod, with_guid()).unwrap();
        gc(json!([{"containerID": "c1", "ifname": "net1"}]));
        assert_eq!(pod.link_names(), ["net1"]);
        if lost {
            fs::remove_file(rack.root.state("journal").join("c1:net1:ib-sriov.json")).unwrap();
        }
        gc(json!([]));
        let locks = rack.root.run("ferroband/lock").join("c1:net1:ib-sriov");
        fs::remove_file(locks).ok();
        assert_eq!((pod.link_names(), rack.snapshot()), (vec![], before.clone()), "journal lost: {lost}");
    }
}

#[test]
fn case_62_functions_given_at_once_keep_the_names_of_their_devices() {
    let rack = SimHostFixture::new(Exclusive);
    let before = rack.snapshot();
    let pods: Vec<_> = (0..4).map(|_| PodNetnsFixture::new()).collect();
    let here = ferroband_kernel::Netns::current().unwrap();
    let at_once = |command: &str| {
        thread::scope(|scope| {
            for (number, pod) in (0..).zip(&pods) {
                let (rack, here) = (&rack, &here);
                scope.spawn(move || {
                    let guid = format!("02:00:00:00:00:00:0b:0{number}");
                    let function = rack.vf_address(number).to_string();
                    let more = json!({"deviceID": function, "runtimeConfig": {"infinibandGUID": guid}});
                    let container = format!("c{number}");
                    let run = || {
                        rack.run(
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
            assert_eq!((pod.link_names(), rack.rdma_devices(Some(pod)).len()), (vec!["net1".to_owned()], 1));
        }
        at_once("DEL");
        assert_eq!(rack.snapshot(), before);
    }
}

#[test]
fn two_functions_for_one_pod_and_the_others_stay() {
    let rack = SimHostFixture::new(Exclusive);
    let before = rack.snapshot();
    let pod = PodNetnsFixture::new();
    let second = json!({"deviceID": VF1, "runtimeConfig": {"infinibandGUID": "02:00:00:00:00:00:00:78"}});
    let of_second = ("c1", "net2");
    add(&rack, &pod, with_guid()).unwrap();
    rack.run(PluginType::IbSriov, "ADD", of_second, &pod.path, &ib_sriov_config(second.clone())).unwrap();
    assert_eq!(pod.link_names(), ["net1", "net2"]);
    assert_eq!(rack.rdma_devices(Some(&pod)).len(), 2);
    del(&rack, &pod, with_guid()).unwrap();
    assert_eq!(pod.link_names(), ["net2"]);
    rack.run(PluginType::IbSriov, "DEL", of_second, &pod.path, &ib_sriov_config(second)).unwrap();
    assert_eq!(rack.snapshot(), before);
}
