//! Tests of virtual functions, driver binding and hot plug. Failures must return the error codes of the real
//! kernel.

use super::fixture::{SimNodeFixture, ip_json, reaches};
use ferroband_kernel::rtnetlink::{GuidKind, RouteSocket, VfLinkState};
use ferroband_kernel::sysfs::chardev::{CharDevice, CharDeviceRole};
use ferroband_kernel::sysfs::infiniband::{self, PortState};
use ferroband_kernel::sysfs::{counters, gpu, pci, topology};
use ferroband_kernel::{Errno, Hardware, Netns};
use ferroband_model::{Guid, LinkLayer, PKey, PciAddress};
use ferroband_sim::{Error, Profile, Simulation, SimulationChange};
use std::fs;
use std::os::unix::fs::FileTypeExt;

fn pci_address(text: &str) -> PciAddress {
    text.parse().unwrap()
}

const PF: &str = "0000:86:00.0";

fn guid(number: u64) -> Guid {
    Guid::new(0x0200_0000_0000_0100 + number)
}

/// Sets the GUIDs of a virtual function and rebinds its driver, so that they take effect.
fn set_guids_and_rebind(hardware: &dyn Hardware, vf: u32) -> PciAddress {
    let pf = pci_address(PF);
    let function = pci::function(hardware.root(), pf).unwrap().unwrap().virtual_functions[vf as usize];
    for kind in [GuidKind::Node, GuidKind::Port] {
        hardware.set_vf_guid(pf, vf, kind, guid(vf.into())).unwrap();
    }
    hardware.unbind_driver(function).unwrap();
    hardware.bind_driver(function, "mlx5_core").unwrap();
    function
}

// Case: operator C43
#[test]
fn new_virtual_functions_have_all_their_objects() {
    let node = SimNodeFixture::with_simulation("node-1");
    let hardware = node.hardware();
    node.run(|| hardware.set_vf_count(pci_address(PF), 4)).unwrap();
    let physical = pci::function(hardware.root(), pci_address(PF)).unwrap().unwrap();
    assert_eq!(physical.vfs, 4);
    let addresses: Vec<_> = physical.virtual_functions.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["0000:86:00.2", "0000:86:00.3", "0000:86:00.4", "0000:86:00.5"]);
    for (index, address) in physical.virtual_functions.iter().enumerate() {
        let function = pci::function(hardware.root(), *address).unwrap().unwrap();
        assert_eq!((function.vendor, function.device, function.class), (0x15b3, 0x1018, 0x02_0700));
        assert_eq!((function.driver.as_deref(), function.numa), (Some("mlx5_core"), Some(0)));
        let (physical, number) = pci::physical_function(hardware.root(), *address).unwrap().unwrap();
        assert_eq!((physical, number as usize), (pci_address(PF), index));
        let [name] =
            infiniband::device_names_of_function(hardware.root(), *address).unwrap().try_into().unwrap();
        assert_eq!(name, format!("mlx5_{}", index + 1));
        let device = infiniband::device(hardware.root(), &name).unwrap().unwrap();
        assert_eq!(device.node_guid, Some(Guid::new(0)), "no GUID until one is set");
        assert_eq!((device.ports[0].state, device.ports[0].guid), (PortState::Down, None));
        assert_eq!(device.netdevs, [format!("ibs5f0v{index}")]);
        let files: Vec<_> = device.files.iter().map(|file| file.name.clone()).collect();
        let number = index + 1;
        assert_eq!(files, [format!("uverbs{number}"), format!("umad{number}"), format!("issm{number}")]);
        for file in &device.files {
            let path = hardware.root().dev("infiniband").join(&file.name);
            assert!(fs::metadata(path).unwrap().file_type().is_char_device(), "{}", file.name);
        }
    }
    let shown = node.run(|| ip_json("link show dev ibs5f0v2"))[0].clone();
    assert_eq!((&shown["mtu"], &shown["operstate"]), (&2044.into(), &"DOWN".into()));
    let vfs = node.run(|| hardware.vfs(pci_address(PF))).unwrap();
    assert_eq!(vfs.len(), 4);
    assert!(vfs.iter().all(|vf| vf.node_guid.is_none() && vf.link_state == Some(VfLinkState::Auto)));
}

// Case: operator C44
#[test]
fn vf_count_cannot_change_between_nonzero_numbers() {
    let node = SimNodeFixture::with_simulation("node-1");
    let hardware = node.hardware();
    let set =
        |count| node.run(|| hardware.set_vf_count(pci_address(PF), count)).map_err(|error| error.errno());
    set(4).unwrap();
    let before = node.link_names();
    set(4).unwrap();
    assert_eq!(set(8), Err(Some(Errno::EBUSY)));
    assert_eq!(set(2), Err(Some(Errno::EBUSY)));
    assert_eq!(set(17), Err(Some(Errno::ERANGE)));
    assert_eq!(node.link_names(), before);
    set(0).unwrap();
    assert_eq!(infiniband::devices(hardware.root()).unwrap().len(), 1);
    assert_eq!(node.link_names(), ["fbk7fff", "ibs5f0"]);
    let left: Vec<_> = fs::read_dir(hardware.root().dev("infiniband")).unwrap().collect();
    assert_eq!(left.len(), 4, "those of the adapter and the connection manager");
    set(16).unwrap();
    assert_eq!(infiniband::devices(hardware.root()).unwrap().len(), 17);
    let missing = node.run(|| hardware.set_vf_count(pci_address("0000:99:00.0"), 1)).unwrap_err();
    assert_eq!(missing.errno(), Some(Errno::ENODEV));
    let vf_error = node.run(|| hardware.set_vf_count(pci_address("0000:86:00.2"), 1)).unwrap_err();
    assert_eq!(vf_error.errno(), Some(Errno::ENOENT));
}

#[test]
fn guid_takes_effect_at_the_next_driver_bind() {
    let node = SimNodeFixture::with_simulation("node-1");
    let hardware = node.hardware();
    node.run(|| {
        let pf = pci_address(PF);
        hardware.set_vf_count(pf, 2).unwrap();
        hardware.set_vf_guid(pf, 1, GuidKind::Node, guid(1)).unwrap();
        hardware.set_vf_guid(pf, 1, GuidKind::Port, guid(2)).unwrap();
        let vfs = hardware.vfs(pf).unwrap();
        assert_eq!((vfs[1].node_guid, vfs[1].port_guid), (Some(guid(1)), Some(guid(2))));
        assert_eq!((vfs[0].node_guid, vfs[0].index), (None, 0));
        let device = || infiniband::device(hardware.root(), "mlx5_2").unwrap();
        assert_eq!(device().unwrap().node_guid, Some(Guid::new(0)), "not before the rebind");
        let function = pci_address("0000:86:00.3");
        hardware.unbind_driver(function).unwrap();
        assert!(device().is_none());
        assert!(!hardware.root().dev("infiniband/uverbs2").exists());
        assert!(RouteSocket::open().unwrap().link("ibs5f0v1").unwrap().is_none());
        assert_eq!(pci::function(hardware.root(), function).unwrap().unwrap().driver, None);
        hardware.bind_driver(function, "mlx5_core").unwrap();
        let bound = device().expect("the RDMA device has its old name");
        assert_eq!((bound.node_guid, bound.ports[0].guid), (Some(guid(1)), Some(guid(2))));
        assert_eq!(bound.ports[0].state, PortState::Active);
        assert!(bound.ports[0].lid.unwrap() > 0);
        let address = fs::read_to_string(hardware.root().sys("class/net/ibs5f0v1/address")).unwrap();
        assert!(address.trim().ends_with(&guid(2).to_string()), "{address}");
        assert!(hardware.rdma_devices(None).unwrap().iter().any(|device| device.name == "mlx5_2"));
        assert_eq!(
            hardware.set_vf_guid(pf, 2, GuidKind::Node, guid(9)).unwrap_err().errno(),
            Some(Errno::EINVAL)
        );
    });
}

// Case: operator C55
#[test]
fn driver_binding_follows_the_rules_of_the_kernel() {
    let node = SimNodeFixture::with_simulation("node-1");
    let hardware = node.hardware();
    node.run(|| {
        hardware.set_vf_count(pci_address(PF), 1).unwrap();
        let function = pci_address("0000:86:00.2");
        let bind = |driver| hardware.bind_driver(function, driver).map_err(|error| error.errno());
        let driver = || pci::function(hardware.root(), function).unwrap().unwrap().driver;
        bind("mlx5_core").unwrap();
        assert_eq!(bind("vfio-pci"), Err(Some(Errno::EBUSY)), "another driver is bound");
        hardware.unbind_driver(function).unwrap();
        hardware.unbind_driver(function).unwrap();
        assert_eq!(bind("vfio-pci"), Err(Some(Errno::ENODEV)), "the driver does not support the device");
        assert_eq!(bind("igb_uio"), Err(Some(Errno::ENOENT)), "the driver is not loaded");
        hardware.set_driver_override(function, Some("vfio-pci")).unwrap();
        assert_eq!(bind("mlx5_core"), Err(Some(Errno::ENODEV)), "driver_override is set");
        hardware.probe_driver(function).unwrap();
        assert_eq!(driver().as_deref(), Some("vfio-pci"));
        assert!(infiniband::device_names_of_function(hardware.root(), function).unwrap().is_empty());
        hardware.unbind_driver(function).unwrap();
        hardware.set_driver_override(function, None).unwrap();
        hardware.probe_driver(function).unwrap();
        assert_eq!(driver().as_deref(), Some("mlx5_core"));
        assert_eq!(infiniband::device_names_of_function(hardware.root(), function).unwrap(), ["mlx5_1"]);
        // Unbinding the driver of a physical function must remove its virtual functions.
        hardware.unbind_driver(pci_address(PF)).unwrap();
        assert!(infiniband::devices(hardware.root()).unwrap().is_empty());
        assert_eq!(pci::functions(hardware.root()).unwrap().len(), 1);
        assert_eq!(
            hardware.set_vf_count(pci_address(PF), 1).unwrap_err().errno(),
            Some(Errno::ENOENT),
            "no driver"
        );
        hardware.probe_driver(pci_address(PF)).unwrap();
    });
    assert_eq!(node.link_names(), ["fbk7fff", "ibs5f0"]);
    let _pod = node.create_ipoib_pod(0xffff, "10.0.0.1/24");
}

#[test]
fn adapter_can_be_unplugged_and_replugged() {
    let node = SimNodeFixture::with_simulation("node-1");
    let hardware = node.hardware();
    node.run(|| {
        hardware.set_vf_count(pci_address(PF), 2).unwrap();
        let before = infiniband::device(hardware.root(), "mlx5_0").unwrap().unwrap();
        for _ in 0..2 {
            Simulation::change(&node.root, &SimulationChange::Unplug { device: "ib0".into() }).unwrap();
            assert!(infiniband::devices(hardware.root()).unwrap().is_empty());
            assert!(pci::functions(hardware.root()).unwrap().is_empty());
        }
        assert_eq!(hardware.unbind_driver(pci_address(PF)).map_err(|error| error.to_string()), Ok(()));
        assert_eq!(hardware.vfs(pci_address(PF)).unwrap_err().errno(), Some(Errno::ENODEV));
        assert!(hardware.ipoib_parent("ib0").is_err());
        for _ in 0..2 {
            Simulation::change(&node.root, &SimulationChange::Replug { device: "mlx5_0".into() }).unwrap();
        }
        let after = infiniband::device(hardware.root(), "mlx5_0").unwrap().unwrap();
        assert_eq!((after.node_guid, &after.ports), (before.node_guid, &before.ports));
        assert_eq!(after.files, before.files);
        assert_eq!(pci::functions(hardware.root()).unwrap().len(), 1, "without virtual functions");
        hardware.ipoib_parent("ib0").unwrap();
        let error = Simulation::change(&node.root, &SimulationChange::Unplug { device: "mlx5_9".into() })
            .unwrap_err();
        assert!(matches!(&error, Error::NoDevice { device } if device == "mlx5_9"), "{error}");
    });
    node.down().unwrap();
    assert!(node.link_names().is_empty());
    let error = node
        .run(|| Simulation::change(&node.root, &SimulationChange::Replug { device: PF.into() }))
        .unwrap_err();
    assert!(matches!(error, Error::NotUp), "{error}");
}

#[test]
fn virtual_functions_follow_the_state_of_the_physical_port() {
    let node = SimNodeFixture::with_simulation("node-1");
    let hardware = node.hardware();
    node.run(|| {
        hardware.set_vf_count(pci_address(PF), 3).unwrap();
        for vf in 0..3 {
            set_guids_and_rebind(&*hardware, vf);
        }
        hardware.set_vf_link_state(pci_address(PF), 1, VfLinkState::Enable).unwrap();
        hardware.set_vf_link_state(pci_address(PF), 2, VfLinkState::Disable).unwrap();
        let states = || {
            let devices = infiniband::devices(hardware.root()).unwrap();
            devices.iter().map(|device| device.ports[0].state).collect::<Vec<_>>()
        };
        let carrier = |name: &str| {
            let mut route = RouteSocket::open().unwrap();
            let link = route.link(name).unwrap().unwrap();
            route.set_up(link.index).unwrap();
            ip_json(&format!("link show dev {name}"))[0]["flags"]
                .as_array()
                .unwrap()
                .contains(&"LOWER_UP".into())
        };
        use PortState::{Active, Down};
        assert_eq!(states(), [Active, Active, Active, Down]);
        assert_eq!([carrier("ibs5f0v0"), carrier("ibs5f0v1"), carrier("ibs5f0v2")], [true, true, false]);
        let port = |state| SimulationChange::SetPortState { device: "mlx5_0".into(), port: 1, state };
        Simulation::change(&node.root, &port(ferroband_sim::SimPortState::Down)).unwrap();
        assert_eq!(states(), [Down, Down, Active, Down]);
        assert_eq!([carrier("ibs5f0v0"), carrier("ibs5f0v1"), carrier("ibs5f0v2")], [false, true, false]);
        let lid = infiniband::device(hardware.root(), "mlx5_0").unwrap().unwrap().ports[0].lid;
        assert_eq!(lid, Some(0));
        assert_eq!(counters::port(hardware.root(), "mlx5_0", 1).unwrap().port["link_downed"], 1);
        Simulation::change(&node.root, &port(ferroband_sim::SimPortState::Active)).unwrap();
        assert_eq!(states(), [Active, Active, Active, Down]);
        let no_port = SimulationChange::SetPortState {
            device: "mlx5_0".into(),
            port: 2,
            state: ferroband_sim::SimPortState::Down,
        };
        assert!(Simulation::change(&node.root, &no_port).is_err());
    });
}

/// Two pods with a virtual function each: 10.0.0.1 and 10.0.0.2.
fn two_pods(node: &SimNodeFixture, hardware: &dyn Hardware) -> Vec<Netns> {
    let pod = |vf: u32| {
        node.run(|| {
            if vf == 0 {
                hardware.set_vf_count(pci_address(PF), 2).unwrap();
            }
            let function = set_guids_and_rebind(hardware, vf);
            node.move_function_to_pod(hardware, function, &format!("10.0.0.{}/24", vf + 1))
        })
    };
    (0..2).map(pod).collect()
}

#[test]
fn counters_include_vf_traffic() {
    let node = SimNodeFixture::with_simulation("node-1");
    let hardware = node.hardware();
    let pods = two_pods(&node, &*hardware);
    node.run(|| hardware.refresh()).unwrap();
    let read = |device: &str| counters::port(hardware.root(), device, 1).unwrap().port;
    let before = (read("mlx5_0"), read("mlx5_1"));
    assert!(reaches(&pods[0], "10.0.0.2", 1000));
    node.run(|| hardware.refresh()).unwrap();
    let after = (read("mlx5_0"), read("mlx5_1"));
    let increase = |name: &str| after.1[name] - before.1[name];
    assert!(increase("port_xmit_packets") >= 3 && increase("port_rcv_packets") >= 3, "{after:?}");
    // Three packets of 1000 bytes plus headers, counted in units of four bytes.
    assert!((750..1500).contains(&increase("port_xmit_data")), "{}", increase("port_xmit_data"));
    assert!(
        after.0["port_xmit_packets"] - before.0["port_xmit_packets"] >= 6,
        "traffic of both pods passes the port"
    );
    node.run(|| hardware.refresh()).unwrap();
    // Earlier traffic must not be counted twice. Only a few IPv6 packets may have passed in between.
    assert!(read("mlx5_1")["port_xmit_data"] - after.1["port_xmit_data"] < 300);
    let count = |counter: &str| SimulationChange::AddToCounter {
        device: "mlx5_1".into(),
        port: 1,
        counter: counter.into(),
        by: 5,
    };
    node.run(|| Simulation::change(&node.root, &count("out_of_sequence"))).unwrap();
    node.run(|| Simulation::change(&node.root, &count("symbol_error"))).unwrap();
    assert!(node.run(|| Simulation::change(&node.root, &count("happiness"))).is_err());
    let counters_read = counters::port(hardware.root(), "mlx5_1", 1).unwrap();
    assert_eq!((counters_read.hardware["out_of_sequence"], counters_read.port["symbol_error"]), (5, 5));
}

#[test]
fn ipoib_child_traffic_is_counted_on_the_adapter() {
    let node = SimNodeFixture::with_simulation("node-1");
    let hardware = node.hardware();
    let one = node.create_ipoib_pod(0xffff, "10.0.0.1/24");
    let _two = node.create_ipoib_pod(0xffff, "10.0.0.2/24");
    assert!(reaches(&one, "10.0.0.2", 56));
    node.run(|| hardware.refresh()).unwrap();
    let counters_read = counters::port(hardware.root(), "mlx5_0", 1).unwrap().port;
    assert!(counters_read["port_rcv_packets"] >= 6, "{counters_read:?}");
    let received = hardware.root().sys("class/net/ibs5f0/statistics/rx_bytes");
    assert!(fs::read_to_string(received).unwrap().trim().parse::<u64>().unwrap() > 0);
}

#[test]
fn pkey_table_determines_reachability() {
    let node = SimNodeFixture::with_simulation("node-1");
    let hardware = node.hardware();
    let pods = two_pods(&node, &*hardware);
    let child = node.create_ipoib_pod(0xffff, "10.0.0.9/24");
    assert!(reaches(&pods[0], "10.0.0.2", 56) && reaches(&child, "10.0.0.1", 56));
    let keys = |device: &str, keys: &[u16]| {
        let keys = keys.iter().map(|key| PKey::new(*key).unwrap()).collect();
        node.run(|| {
            Simulation::change(&node.root, &SimulationChange::SetPKeys { device: device.into(), keys })
        })
        .unwrap();
    };
    keys("0000:86:00.2", &[0x8005, 0xffff]);
    assert_eq!(
        infiniband::device(hardware.root(), "mlx5_1").unwrap().unwrap().ports[0].pkeys,
        [PKey::new(0x8005).unwrap(), PKey::DEFAULT]
    );
    assert!(!reaches(&pods[0], "10.0.0.2", 56), "different partitions");
    keys("mlx5_2", &[0x0005]);
    assert!(reaches(&pods[0], "10.0.0.2", 56), "same partition");
    assert!(!reaches(&child, "10.0.0.1", 56));
}

#[test]
fn dgx_supports_the_maximum_number_of_virtual_functions() {
    let node = SimNodeFixture::new();
    node.up_with(Profile::builtin("dgx").unwrap(), "node-1");
    let hardware = node.hardware();
    let gpus = gpu::gpus(hardware.root()).unwrap();
    let devices = infiniband::devices(hardware.root()).unwrap();
    assert_eq!((gpus.len(), devices.len()), (8, 8));
    for (gpu, device) in gpus.iter().zip(&devices) {
        let place = topology::locate(hardware.root(), device.pci.unwrap()).unwrap().unwrap();
        let (distance, nearest) = gpu::by_distance(&gpus, &place)[0];
        assert_eq!((nearest.address, distance.proximity), (gpu.address, topology::Proximity::Switch));
    }
    assert!(node.link_names().contains(&"eno3np2".to_owned()));
    node.run(|| {
        for device in &devices {
            hardware.set_vf_count(device.pci.unwrap(), 16).unwrap();
        }
    });
    let all = infiniband::devices(hardware.root()).unwrap();
    assert_eq!(all.len(), 136);
    let number = |file: &CharDevice| {
        let class = if file.role == CharDeviceRole::Verbs { "infiniband_verbs" } else { "infiniband_mad" };
        let path = hardware.root().sys("class").join(class).join(&file.name).join("dev");
        fs::read_to_string(path).unwrap()
    };
    let mut numbers: Vec<_> = all.iter().flat_map(|device| &device.files).map(number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 136 * 3, "device numbers are unique");
    node.down().unwrap();
    assert!(node.link_names().is_empty());
}

#[test]
fn ethernet_profile_has_ethernet_adapters() {
    let node = SimNodeFixture::new();
    node.up_with(Profile::builtin("ethernet").unwrap(), "node-1");
    let hardware = node.hardware();
    node.run(|| hardware.set_vf_count(pci_address("0000:3b:00.0"), 2)).unwrap();
    let devices = infiniband::devices(hardware.root()).unwrap();
    assert_eq!(devices.len(), 4);
    for device in &devices {
        assert_eq!(device.ports[0].link_layer, Some(LinkLayer::Ethernet));
        assert_eq!(device.ports[0].state, PortState::Active, "no GUID has to be set");
        assert!(!device.node_guid.unwrap().is_unset());
        assert_eq!(device.files.len(), 1, "no umad and issm devices");
        let function = pci::function(hardware.root(), device.pci.unwrap()).unwrap().unwrap();
        assert_eq!(function.class, 0x02_0000);
    }
    let attributes = hardware.root().sys("class/infiniband/mlx5_0/ports/1/gid_attrs");
    let gid_attribute = |name: &str| fs::read_to_string(attributes.join(name).join("0")).unwrap();
    assert_eq!((gid_attribute("types").trim(), gid_attribute("ndevs").trim()), ("RoCE v2", "ens5f0np0"));
    let shown = node.run(|| ip_json("link show dev ens5f0np0"))[0].clone();
    assert_eq!((&shown["link_type"], &shown["mtu"]), (&"ether".into(), &1500.into()));
    assert!(node.run(|| hardware.ipoib_parent("ens5f0np0")).is_err(), "no IPoIB on Ethernet");
    node.down().unwrap();
    assert!(node.link_names().is_empty());
}

#[test]
fn interrupted_change_is_rolled_back() {
    let node = SimNodeFixture::with_simulation("node-1");
    let hardware = node.hardware();
    node.run(|| hardware.set_vf_count(pci_address(PF), 2)).unwrap();
    // Create the state that a killed change leaves: the dirty marker file `begun` exists, the sysfs and /dev
    // trees are incomplete, one veth pair is stale and one is missing.
    fs::write(node.root.state("sim/begun"), "").unwrap();
    fs::remove_dir_all(hardware.root().sys("class/infiniband")).unwrap();
    fs::remove_file(hardware.root().dev("infiniband/uverbs1")).unwrap();
    node.run(|| {
        ip_json("link add fbf0v7 type veth peer name ibs5f0v7");
        ip_json("link del ibs5f0v1");
    });
    let names: Vec<_> =
        node.run(|| hardware.rdma_devices(None)).unwrap().into_iter().map(|device| device.name).collect();
    assert_eq!(names, ["mlx5_0", "mlx5_1", "mlx5_2"]);
    assert_eq!(infiniband::devices(hardware.root()).unwrap().len(), 3);
    assert!(hardware.root().dev("infiniband/uverbs1").exists());
    assert_eq!(node.link_names(), ["fbf0v0", "fbf0v1", "fbk7fff", "ibs5f0", "ibs5f0v0", "ibs5f0v1"]);
    assert!(!node.root.state("sim/begun").exists());
}

#[test]
fn virtual_functions_survive_a_daemon_restart_but_not_a_reboot() {
    let node = SimNodeFixture::with_simulation("node-1");
    let hardware = node.hardware();
    node.run(|| hardware.set_vf_count(pci_address(PF), 2)).unwrap();
    node.up("node-1", None).unwrap();
    assert_eq!(infiniband::devices(hardware.root()).unwrap().len(), 3);
    fs::remove_file(node.root.run("ferroband/simulation.json")).unwrap();
    node.up("node-1", None).unwrap();
    assert_eq!(infiniband::devices(hardware.root()).unwrap().len(), 1);
    assert_eq!(node.link_names(), ["fbk7fff", "ibs5f0"]);
}

#[test]
fn sixteen_virtual_functions_can_be_set_up_concurrently() {
    let node = SimNodeFixture::with_simulation("node-1");
    let hardware = node.hardware();
    node.run(|| hardware.set_vf_count(pci_address(PF), 16)).unwrap();
    std::thread::scope(|scope| {
        for vf in 0..16 {
            let (hardware, node) = (&hardware, &node);
            scope.spawn(move || node.run(|| set_guids_and_rebind(&**hardware, vf)));
        }
        for _ in 0..4 {
            let (hardware, node) = (&hardware, &node);
            scope.spawn(move || {
                for _ in 0..10 {
                    node.run(|| hardware.refresh()).unwrap();
                    infiniband::devices(hardware.root()).unwrap();
                    pci::functions(hardware.root()).unwrap();
                }
            });
        }
    });
    let devices = infiniband::devices(hardware.root()).unwrap();
    assert_eq!(devices.len(), 17);
    let mut guids: Vec<_> = devices.iter().map(|device| device.node_guid.unwrap()).collect();
    guids.sort_unstable();
    guids.dedup();
    assert_eq!(guids.len(), 17);
    assert!(devices.iter().all(|device| device.netdevs.len() == 1 && device.files.len() == 3));
}
