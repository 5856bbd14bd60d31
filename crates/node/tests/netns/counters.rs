//! Counters of devices wherever they are.

use super::machine::{SimulatedHostFixture, pod};
use ferroband_kernel::{NetnsMode, sysfs::counters};
use ferroband_node::observe::metrics::{
    MetricsSandbox, PodWithController, PodsByPciAddress, RdmaCounterCollector,
};
use ferroband_sim::{Profile, SimulationChange};

fn count(device: &str, counter: &str, by: u64) -> SimulationChange {
    SimulationChange::AddToCounter { device: device.to_owned(), port: 1, counter: counter.to_owned(), by }
}

/// The value of the first metric with this beginning, and all its labels.
fn metric<'a>(text: &'a str, name: &str, label: &str) -> Option<(&'a str, u64)> {
    let line = text.lines().find(|line| line.starts_with(&format!("{name}{{")) && line.contains(label))?;
    let (labels, value) = line.rsplit_once(' ')?;
    Some((labels, value.parse().ok()?))
}

#[test]
fn a_device_in_a_pods_namespace_is_found_and_its_counters_are_what_sysfs_says_there() {
    let machine =
        SimulatedHostFixture::up(Profile { netns_mode: NetnsMode::Exclusive, ..Profile::default() });
    machine.change(&SimulationChange::SetVfCount { device: "mlx5_0".to_owned(), count: 1 });
    machine.change(&count("mlx5_1", "out_of_sequence", 7));
    machine.change(&count("mlx5_1", "port_rcv_errors", 3));
    let pod = pod();
    machine.hardware.move_rdma_device("mlx5_1", None, &pod).unwrap();
    // The namespace is found by its path, as the journal has it.
    let path = machine.root.run("netns/pod");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, "").unwrap();
    let from = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&pod.fd()));
    let flags = nix::mount::MsFlags::MS_BIND;
    nix::mount::mount(Some(from.as_str()), &path, None::<&str>, flags, None::<&str>).unwrap();
    let owner = PodWithController { namespace: "ml".to_owned(), name: "p".to_owned(), controller: None };
    let sandboxes = [
        MetricsSandbox { netns: "/nowhere/at/all".into(), pod: owner.clone() },
        MetricsSandbox { netns: path.clone(), pod: owner },
    ];
    let exporter = RdmaCounterCollector { hardware: machine.hardware.clone(), node: "n1".to_owned() };
    let text = exporter.collect(&PodsByPciAddress::default(), &sandboxes).render();
    nix::mount::umount2(&path, nix::mount::MntFlags::MNT_DETACH).unwrap();

    let mut said = counters::PortCounters::default();
    let mut look = |root: &ferroband_kernel::Root| said = counters::port(root, "mlx5_1", 1).unwrap();
    machine.hardware.with_netns_sysfs(&pod, &mut look).unwrap();
    assert!(said.port.len() > 20 && said.hardware.len() > 20, "{said:?}");
    for (counter, wanted) in said.port.iter().chain(&said.hardware) {
        let name = format!("rdma_{}_total", counter.to_lowercase());
        let (labels, value) = metric(&text, &name, "ifname=\"mlx5_1\"").unwrap_or_else(|| panic!("{name}"));
        assert_eq!(value, *wanted, "{name}");
        assert!(labels.contains("pod_namespace=\"ml\",pod_name=\"p\""), "{labels}");
    }
    assert_eq!(metric(&text, "rdma_out_of_sequence_total", "mlx5_1").unwrap().1, 7);
    let (host, _) = metric(&text, "rdma_port_state", "mlx5_0").unwrap();
    assert!(!host.contains("pod_name"), "{host}");
}

#[test]
fn the_driver_of_an_ethernet_interface_counts_for_its_virtual_port() {
    let machine = SimulatedHostFixture::up(Profile::builtin("ethernet").unwrap());
    let exporter = RdmaCounterCollector { hardware: machine.hardware.clone(), node: "n1".to_owned() };
    let text = exporter.collect(&PodsByPciAddress::default(), &[]).render();
    let (labels, _) = metric(&text, "rdma_rx_vport_unicast_bytes_total", "mlx5_0").expect(&text);
    assert!(labels.contains("net_dev_name=\"ens5f0np0\""), "{labels}");
    assert!(metric(&text, "rdma_tx_pause_total", "priority=\"0\"").is_some(), "{text}");
}
