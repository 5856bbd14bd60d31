//! Tests of RDMA devices in network namespaces and their interfaces.

use super::fixture::{SimNodeFixture, new_netns};
use ferroband_kernel::rtnetlink::{GuidKind, RouteSocket};
use ferroband_kernel::sysfs::{counters, infiniband, pci};
use ferroband_kernel::{Errno, Error, Hardware, Netns, NetnsMode};
use ferroband_model::{Guid, PciAddress};
use ferroband_sim::Profile;

fn pci_address(text: &str) -> PciAddress {
    text.parse().unwrap()
}

const VF: &str = "0000:86:00.2";

/// A node in exclusive mode with one virtual function that has a GUID.
fn exclusive_node(change: impl FnOnce(&mut Profile)) -> (SimNodeFixture, Box<dyn Hardware>) {
    let node = SimNodeFixture::new();
    let mut profile = Profile { netns_mode: NetnsMode::Exclusive, ..Profile::default() };
    change(&mut profile);
    node.up_with(profile, "node-1");
    let hardware = node.hardware();
    node.run(|| {
        let pf = pci_address("0000:86:00.0");
        hardware.set_vf_count(pf, 1).unwrap();
        for kind in [GuidKind::Node, GuidKind::Port] {
            hardware.set_vf_guid(pf, 0, kind, Guid::new(0x0200_0000_0000_0101)).unwrap();
        }
        hardware.unbind_driver(pci_address(VF)).unwrap();
        hardware.probe_driver(pci_address(VF)).unwrap();
    });
    (node, hardware)
}

fn names(hardware: &dyn Hardware, netns: Option<&Netns>) -> Vec<String> {
    hardware.rdma_devices(netns).unwrap().into_iter().map(|device| device.name).collect()
}

fn interfaces(hardware: &dyn Hardware, netns: Option<&Netns>) -> Vec<String> {
    hardware.interfaces(pci_address(VF), netns).unwrap().into_iter().map(|link| link.name).collect()
}

#[test]
fn shared_devices_are_visible_in_all_namespaces_and_cannot_be_moved() {
    let node = SimNodeFixture::with_simulation("node-1");
    let hardware = node.hardware();
    let pod = new_netns();
    node.run(|| {
        assert_eq!(hardware.rdma_netns_mode().unwrap(), NetnsMode::Shared);
        assert_eq!(names(&*hardware, Some(&pod)), ["mlx5_0"]);
        let error = hardware.move_rdma_device("mlx5_0", None, &pod).unwrap_err();
        assert_eq!(error.errno(), Some(Errno::EOPNOTSUPP));
        hardware.set_rdma_netns_mode(NetnsMode::Exclusive).unwrap();
        hardware.set_rdma_netns_mode(NetnsMode::Exclusive).unwrap();
        assert_eq!(hardware.rdma_netns_mode().unwrap(), NetnsMode::Exclusive);
        assert!(names(&*hardware, Some(&pod)).is_empty());
        hardware.set_rdma_netns_mode(NetnsMode::Shared).unwrap();
    });
    let _with_child = node.create_ipoib_pod(0xffff, "10.0.0.1/24");
    let error = node.run(|| hardware.set_rdma_netns_mode(NetnsMode::Exclusive)).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::EBUSY), "a pod namespace contains a simulated interface");
}

#[test]
fn moved_device_is_visible_only_in_its_namespace() {
    let (node, hardware) = exclusive_node(|_| {});
    let pod = new_netns();
    node.run(|| {
        let before = std::fs::read_to_string(hardware.root().sys("class/net/ibs5f0v0/address")).unwrap();
        hardware.move_rdma_device("mlx5_1", None, &pod).unwrap();
        assert_eq!(names(&*hardware, None), ["mlx5_0"]);
        assert_eq!(names(&*hardware, Some(&pod)), ["mlx5_1"]);
        assert!(infiniband::device_names_of_function(hardware.root(), pci_address(VF)).unwrap().is_empty());
        assert!(infiniband::device(hardware.root(), "mlx5_1").unwrap().is_none());
        assert!(
            hardware.root().sys("class/infiniband_verbs/uverbs1").exists(),
            "device files have no namespace"
        );
        assert!(hardware.root().dev("infiniband/uverbs1").exists());
        // Up to Linux 6.16, the device's interface is recreated in the host's namespace, with a different
        // queue pair number.
        assert_eq!(interfaces(&*hardware, None), ["ibs5f0v0"]);
        assert!(interfaces(&*hardware, Some(&pod)).is_empty());
        let after = std::fs::read_to_string(hardware.root().sys("class/net/ibs5f0v0/address")).unwrap();
        assert_ne!(before[..11], after[..11]);
        assert_eq!(before[11..], after[11..]);

        let mut visible = None;
        hardware
            .with_netns_sysfs(&pod, &mut |root| {
                let device = infiniband::device(root, "mlx5_1").unwrap().unwrap();
                let counted = counters::port(root, "mlx5_1", 1).unwrap().port.contains_key("port_xmit_data");
                let files = device.files.iter().all(|file| root.dev("infiniband").join(&file.name).exists());
                visible = Some((
                    device.pci,
                    device.ports[0].guid,
                    counted,
                    files,
                    infiniband::devices(root).unwrap().len(),
                ));
            })
            .unwrap();
        assert_eq!(
            visible,
            Some((Some(pci_address(VF)), Some(Guid::new(0x0200_0000_0000_0101)), true, true, 1))
        );

        let again = hardware.move_rdma_device("mlx5_1", None, &pod).unwrap_err();
        assert!(matches!(&again, Error::NoRdmaDevice { device } if device == "mlx5_1"), "{again}");
        let error = hardware.set_rdma_netns_mode(NetnsMode::Shared).unwrap_err();
        assert_eq!(error.errno(), Some(Errno::EBUSY));
        let host = Netns::current().unwrap();
        hardware.move_rdma_device("mlx5_1", Some(&pod), &host).unwrap();
        assert_eq!(names(&*hardware, None), ["mlx5_0", "mlx5_1"]);
        assert_eq!(
            infiniband::device_names_of_function(hardware.root(), pci_address(VF)).unwrap(),
            ["mlx5_1"]
        );
        assert!(std::fs::read_dir(node.root.state("sim/netns")).unwrap().next().is_none());
    });
}

#[test]
fn ipoib_interface_follows_the_device_as_since_linux_6_17() {
    let (node, hardware) = exclusive_node(|profile| profile.ipoib_follows = true);
    let pod = new_netns();
    node.run(|| {
        hardware.move_rdma_device("mlx5_1", None, &pod).unwrap();
        assert!(interfaces(&*hardware, None).is_empty());
        assert_eq!(interfaces(&*hardware, Some(&pod)), ["ib0"]);
        assert!(pci::function(hardware.root(), pci_address(VF)).unwrap().unwrap().netdevs.is_empty());
        let host = Netns::current().unwrap();
        hardware.move_rdma_device("mlx5_1", Some(&pod), &host).unwrap();
        assert_eq!(interfaces(&*hardware, None), ["ibs5f0v0"]);
    });
}

#[test]
fn moved_and_renamed_interface_is_tracked() {
    let (node, hardware) = exclusive_node(|_| {});
    let pod = new_netns();
    node.run(|| {
        let link = hardware.interfaces(pci_address(VF), None).unwrap().remove(0);
        let mut route = RouteSocket::open().unwrap();
        route.move_link(link.index, &pod).unwrap();
        let mut inside = RouteSocket::open_in(&pod).unwrap();
        let moved = inside.link("ibs5f0v0").unwrap().unwrap();
        inside.rename_link(moved.index, "net1").unwrap();
        hardware.refresh().unwrap();
        let netdevs = || pci::function(hardware.root(), pci_address(VF)).unwrap().unwrap().netdevs;
        assert!(netdevs().is_empty(), "sysfs of the host does not contain it");
        assert_eq!(interfaces(&*hardware, Some(&pod)), ["net1"]);
        inside.move_link(moved.index, &Netns::current().unwrap()).unwrap();
        hardware.refresh().unwrap();
        assert_eq!(netdevs(), ["net1"], "with its current name");
    });
}

#[test]
fn devices_return_to_the_host_when_their_namespace_is_deleted() {
    let (node, hardware) = exclusive_node(|_| {});
    let pod = new_netns();
    node.run(|| {
        hardware.move_rdma_device("mlx5_1", None, &pod).unwrap();
        let link = hardware.interfaces(pci_address(VF), None).unwrap().remove(0);
        RouteSocket::open().unwrap().move_link(link.index, &pod).unwrap();
        hardware.refresh().unwrap();
        assert_eq!(names(&*hardware, None), ["mlx5_0"], "while the pod exists");
    });
    drop(pod);
    node.run(|| {
        // The kernel deletes namespaces asynchronously, so wait for up to five seconds.
        let back = (0..100).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            hardware.refresh().unwrap();
            names(&*hardware, None) == ["mlx5_0", "mlx5_1"]
                && pci::function(hardware.root(), pci_address(VF)).unwrap().unwrap().netdevs == ["ibs5f0v0"]
        });
        assert!(back, "{:?}", names(&*hardware, None));
        assert_eq!(
            infiniband::device_names_of_function(hardware.root(), pci_address(VF)).unwrap(),
            ["mlx5_1"]
        );
    });
}
