//! Tests that need a kernel with InfiniBand adapters. They compare the results of this crate with the output of
//! `rdma` and `ip`. Run them with `--ignored --test-threads 1` in the VM of the `vm` test tier. It has two adapters
//! with SR-IOV, and its RDMA subsystem is in exclusive network namespace mode. Each test restores what it changes.

use super::fixture::{ip_json, new_netns};
use ferroband_kernel::rtnetlink::{GuidKind, VfLinkState};
use ferroband_kernel::sysfs::{counters, infiniband, pci};
use ferroband_kernel::{
    Errno, Error, Hardware, HardwareEvent, HardwareWatch, Host, LinuxHost, Netns, NetnsMode, RdmaSocket,
};
use ferroband_model::{Guid, PciAddress};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

/// Output of `rdma -j …` in the namespace of the calling thread.
fn rdma(arguments: &str) -> Vec<Value> {
    let output = Command::new("rdma").args(["-j", "-d"]).args(arguments.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "rdma {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn names(devices: &[Value]) -> Vec<String> {
    devices.iter().map(|device| device["ifname"].as_str().unwrap().to_owned()).collect()
}

/// PCI addresses of the adapters that have virtual functions, and of these virtual functions.
fn adapters() -> Vec<(PciAddress, Vec<PciAddress>)> {
    let functions = pci::functions(LinuxHost::default().root()).unwrap();
    let capable = functions.into_iter().filter(|function| !function.virtual_functions.is_empty());
    let adapters: Vec<_> = capable.map(|function| (function.address, function.virtual_functions)).collect();
    assert!(!adapters.is_empty(), "this machine has no adapter with virtual functions");
    adapters
}

/// The last virtual function of the last adapter: address of the adapter, index and address of the virtual
/// function, and name of its RDMA device.
fn last_vf() -> (PciAddress, u32, PciAddress, String) {
    let (pf, vfs) = adapters().pop().unwrap();
    let vf = *vfs.last().unwrap();
    let [device] =
        infiniband::device_names_of_function(LinuxHost::default().root(), vf).unwrap().try_into().unwrap();
    (pf, u32::try_from(vfs.len() - 1).unwrap(), vf, device)
}

/// The virtual functions of an adapter as `ip` shows them.
fn shown_vfs(pf: PciAddress) -> Vec<Value> {
    let [netdev] =
        pci::function(LinuxHost::default().root(), pf).unwrap().unwrap().netdevs.try_into().unwrap();
    ip_json(&format!("link show dev {netdev}"))[0]["vfinfo_list"].as_array().unwrap().clone()
}

#[test]
#[ignore = "needs adapters"]
fn devices_and_ports_match_rdma() {
    let mut socket = RdmaSocket::open().unwrap();
    let shown = rdma("dev show");
    let devices = socket.devices().unwrap();
    assert_eq!(devices.iter().map(|device| device.name.clone()).collect::<Vec<_>>(), names(&shown));
    let links: BTreeMap<String, Value> = rdma("link show")
        .into_iter()
        .map(|link| (format!("{}/{}", link["ifname"].as_str().unwrap(), link["port"]), link))
        .collect();
    for (device, shown) in devices.iter().zip(&shown) {
        assert_eq!(shown["ifindex"], device.index);
        let guid: Guid = shown["node_guid"].as_str().unwrap().parse().unwrap();
        let sysfs = infiniband::device(LinuxHost::default().root(), &device.name).unwrap().unwrap();
        assert_eq!(sysfs.node_guid, Some(guid), "as in sysfs");
        assert_eq!(shown["fw"].as_str(), sysfs.firmware.as_deref());
        for port in &sysfs.ports {
            let link = &links[&format!("{}/{}", device.name, port.number)];
            assert_eq!(link["lid"].as_u64(), port.lid.map(u64::from));
            assert_eq!(link["sm_lid"].as_u64(), port.sm_lid.map(u64::from));
            assert_eq!(
                link["state"].as_str().unwrap().to_lowercase(),
                format!("{:?}", port.state).to_lowercase()
            );
        }
    }
}

#[test]
#[ignore = "needs adapters"]
fn netns_mode_matches_rdma_and_is_fixed_while_namespaces_exist() {
    let linux = LinuxHost::default();
    let mode = linux.rdma_netns_mode().unwrap();
    // Read the text output: `rdma -j` of iproute2 6.1 does not print valid JSON for this command.
    let shown = Command::new("rdma").args(["system", "show"]).output().unwrap();
    assert!(String::from_utf8_lossy(&shown.stdout).starts_with(&format!("netns {mode}")), "{shown:?}");
    let _other = new_netns();
    linux.set_rdma_netns_mode(mode).unwrap();
    let opposite = if mode == NetnsMode::Shared { NetnsMode::Exclusive } else { NetnsMode::Shared };
    let error = linux.set_rdma_netns_mode(opposite).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::EBUSY), "{error}");
}

#[test]
#[ignore = "needs adapters"]
fn virtual_functions_match_ip() {
    let linux = LinuxHost::default();
    for (pf, addresses) in adapters() {
        let vfs = linux.vfs(pf).unwrap();
        let shown = shown_vfs(pf);
        assert_eq!((vfs.len(), shown.len()), (addresses.len(), addresses.len()));
        for (vf, shown) in vfs.iter().zip(&shown) {
            assert_eq!(shown["vf"], vf.index);
            let guid = |key: &str| shown[key].as_str().map(|text| text.parse::<Guid>().unwrap());
            assert_eq!(guid("node guid").or(guid("node_guid")), vf.node_guid, "{shown}");
            assert_eq!(guid("port guid").or(guid("port_guid")), vf.port_guid);
            assert_eq!(shown["link_state"], vf.link_state.unwrap().to_string());
        }
    }
}

#[test]
#[ignore = "needs adapters"]
fn guid_takes_effect_at_the_next_driver_bind() {
    let linux = LinuxHost::default();
    let (pf, index, vf, device) = last_vf();
    let before = linux.vfs(pf).unwrap()[index as usize];
    let other = Guid::new(0x02ab_cdef_0123_4567);
    linux.set_vf_guid(pf, index, GuidKind::Node, other).unwrap();
    linux.set_vf_guid(pf, index, GuidKind::Port, other).unwrap();
    let shown = shown_vfs(pf)[index as usize].to_string();
    assert_eq!(shown.matches(&other.to_string()).count(), 2, "{shown}");
    let node_guid = |name: &str| infiniband::device(linux.root(), name).unwrap().unwrap().node_guid;
    assert_eq!(node_guid(&device), before.node_guid);
    let driver = pci::function(linux.root(), vf).unwrap().unwrap().driver.unwrap();
    linux.unbind_driver(vf).unwrap();
    linux.unbind_driver(vf).unwrap();
    assert!(!names(&rdma("dev show")).contains(&device));
    linux.bind_driver(vf, &driver).unwrap();
    linux.bind_driver(vf, &driver).unwrap();
    let [bound] = infiniband::device_names_of_function(linux.root(), vf).unwrap().try_into().unwrap();
    assert_eq!(node_guid(&bound), Some(other));
    linux.set_vf_guid(pf, index, GuidKind::Node, before.node_guid.unwrap()).unwrap();
    linux.set_vf_guid(pf, index, GuidKind::Port, before.port_guid.unwrap()).unwrap();
    linux.unbind_driver(vf).unwrap();
    linux.probe_driver(vf).unwrap();
    assert_eq!(node_guid(&bound), before.node_guid);
    let error = linux.set_vf_guid(pf, 1000, GuidKind::Node, other).unwrap_err();
    assert!(error.to_string().contains("virtual function 1000"), "{error}");
}

#[test]
#[ignore = "needs adapters"]
fn vf_link_state_can_be_set() {
    let linux = LinuxHost::default();
    let (pf, index, ..) = last_vf();
    for state in [VfLinkState::Disable, VfLinkState::Enable, VfLinkState::Auto] {
        linux.set_vf_link_state(pf, index, state).unwrap();
        assert_eq!(shown_vfs(pf)[index as usize]["link_state"], state.to_string());
        assert_eq!(linux.vfs(pf).unwrap()[index as usize].link_state, Some(state));
    }
}

#[test]
#[ignore = "needs adapters"]
fn vf_count_cannot_change_between_nonzero_numbers() {
    let linux = LinuxHost::default();
    let (pf, vfs) = adapters().pop().unwrap();
    let count = u16::try_from(vfs.len()).unwrap();
    linux.set_vf_count(pf, count).unwrap();
    let error = linux.set_vf_count(pf, count - 1).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::EBUSY), "{error}");
    let error = linux.set_vf_count(pf, 10_000).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::ERANGE), "{error}");
    let error = linux.set_vf_count(vfs[0], 1).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::ENOENT), "a virtual function has no sriov_numvfs: {error}");
}

#[test]
#[ignore = "needs adapters"]
fn rdma_device_moves_to_a_namespace_and_back() {
    let linux = LinuxHost::default();
    let (_, _, vf, device) = last_vf();
    let host_netns = Netns::current().unwrap();
    let pod = new_netns();
    let before = linux.interfaces(vf, None).unwrap();
    assert_eq!(before.len(), 1);
    linux.move_rdma_device(&device, None, &pod).unwrap();
    assert!(!names(&rdma("dev show")).contains(&device));
    assert_eq!(pod.run(|| names(&rdma("dev show"))).unwrap(), [device.as_str()]);
    assert_eq!(linux.rdma_devices(Some(&pod)).unwrap()[0].name, device);
    assert!(infiniband::device_names_of_function(linux.root(), vf).unwrap().is_empty());
    let (host, moved) = (linux.interfaces(vf, None).unwrap(), linux.interfaces(vf, Some(&pod)).unwrap());
    assert_eq!(host.len() + moved.len(), 1, "in exactly one namespace: {host:?} {moved:?}");
    let mut visible = Vec::new();
    linux
        .with_netns_sysfs(&pod, &mut |root| {
            for found in infiniband::devices(root).unwrap() {
                let counted = counters::port(root, &found.name, 1).unwrap().port.len();
                visible.push((found.name, found.pci, counted > 0));
            }
        })
        .unwrap();
    assert_eq!(visible, [(device.clone(), Some(vf), true)]);
    let error = linux.move_rdma_device(&device, None, &pod).unwrap_err();
    assert!(matches!(error, Error::NoRdmaDevice { .. }), "{error}");
    linux.move_rdma_device(&device, Some(&pod), &host_netns).unwrap();
    assert!(names(&rdma("dev show")).contains(&device));
    assert_eq!(linux.interfaces(vf, None).unwrap().len(), 1);
}

#[test]
#[ignore = "needs adapters"]
fn hardware_events_arrive_within_a_second() {
    let linux = LinuxHost::default();
    let (pf, index, vf, _) = last_vf();
    let expect =
        |watch: &mut HardwareWatch, expected: &str, mut matches: Box<dyn FnMut(&HardwareEvent) -> bool>| {
            let until = Instant::now() + Duration::from_secs(1);
            while let Some(event) = watch.wait(until.saturating_duration_since(Instant::now())).unwrap() {
                if matches(&event) {
                    return;
                }
            }
            panic!("no event received: {expected}");
        };
    let device = |expected_action: &'static str,
                  expected_subsystem: &'static str|
     -> Box<dyn FnMut(&HardwareEvent) -> bool> {
        let address = vf.to_string();
        Box::new(move |event| {
            matches!(event, HardwareEvent::Device { action, subsystem, path }
                if action == expected_action && subsystem == expected_subsystem && path.contains(&address))
        })
    };
    let mut watch = linux.watch().unwrap();
    linux.unbind_driver(vf).unwrap();
    expect(&mut watch, "RDMA device removed", device("remove", "infiniband"));
    expect(&mut watch, "driver unbound", device("unbind", "pci"));
    linux.probe_driver(vf).unwrap();
    expect(&mut watch, "RDMA device added", device("add", "infiniband"));
    expect(&mut watch, "driver bound", device("bind", "pci"));
    // The kernel sends no event about the port itself, but a link event when the interface of the port loses its
    // carrier.
    let link = linux.interfaces(vf, None).unwrap().remove(0);
    ip_json(&format!("link set {} up", link.name));
    let carrier = |expected: bool| -> Box<dyn FnMut(&HardwareEvent) -> bool> {
        let index = link.index;
        Box::new(move |event| {
            matches!(event, HardwareEvent::LinkChanged(link)
                if link.index == index && link.carrier == expected)
        })
    };
    let until = Instant::now() + Duration::from_secs(20);
    while !linux.interfaces(vf, None).unwrap()[0].carrier {
        assert!(Instant::now() < until, "no carrier");
        std::thread::sleep(Duration::from_millis(100));
    }
    while watch.poll().unwrap().is_some() {}
    linux.set_vf_link_state(pf, index, VfLinkState::Disable).unwrap();
    expect(&mut watch, "carrier lost", carrier(false));
    linux.set_vf_link_state(pf, index, VfLinkState::Auto).unwrap();
    ip_json(&format!("link set {} down", link.name));
}
