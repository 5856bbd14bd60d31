//! Tests the metrics of devices on the host and in pods.

use super::simulated_host::{SimulatedHostFixture, create_pod_netns};
use ferroband_kernel::{NetnsMode, sysfs::counters};
use ferroband_node::observe::metrics::{
    MetricsSandbox, PodWithController, PodsByPciAddress, RdmaCounterCollector,
};
use ferroband_sim::{Profile, SimulationChange};

fn count(device: &str, counter: &str, by: u64) -> SimulationChange {
    SimulationChange::AddToCounter { device: device.to_owned(), port: 1, counter: counter.to_owned(), by }
}

/// Finds the first metric with this name whose labels contain the text `label`. Returns its labels and value.
fn metric<'a>(text: &'a str, name: &str, label: &str) -> Option<(&'a str, u64)> {
    let line = text.lines().find(|line| line.starts_with(&format!("{name}{{")) && line.contains(label))?;
    let (labels, value) = line.rsplit_once(' ')?;
    Some((labels, value.parse().ok()?))
}

// Case: ipam R01
#[test]
fn device_in_a_pods_namespace_has_its_sysfs_counters_and_pod_labels() {
    let host = SimulatedHostFixture::up(Profile { netns_mode: NetnsMode::Exclusive, ..Profile::default() });
    host.change(&SimulationChange::SetVfCount { device: "mlx5_0".to_owned(), count: 1 });
    host.change(&count("mlx5_1", "out_of_sequence", 7));
    host.change(&count("mlx5_1", "port_rcv_errors", 3));
    let pod = create_pod_netns();
    host.hardware.move_rdma_device("mlx5_1", None, &pod).unwrap();
    // A sandbox is identified by the path of its namespace, so the namespace is mounted on a file.
    let path = host.root.run("netns/pod");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, "").unwrap();
    let source = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&pod.fd()));
    let flags = nix::mount::MsFlags::MS_BIND;
    nix::mount::mount(Some(source.as_str()), &path, None::<&str>, flags, None::<&str>).unwrap();
    let owner = PodWithController { namespace: "ml".to_owned(), name: "p".to_owned(), controller: None };
    let sandboxes = [
        MetricsSandbox { netns: "/nowhere/at/all".into(), pod: owner.clone() },
        MetricsSandbox { netns: path.clone(), pod: owner },
    ];
    let collector = RdmaCounterCollector { hardware: host.hardware.clone(), node: "n1".to_owned() };
    let text = collector.collect(&PodsByPciAddress::default(), &sandboxes).render();
    nix::mount::umount2(&path, nix::mount::MntFlags::MNT_DETACH).unwrap();

    let mut expected = counters::PortCounters::default();
    let mut read = |root: &ferroband_kernel::Root| expected = counters::port(root, "mlx5_1", 1).unwrap();
    host.hardware.with_netns_sysfs(&pod, &mut read).unwrap();
    assert!(expected.port.len() > 20 && expected.hardware.len() > 20, "{expected:?}");
    for (counter, value_in_sysfs) in expected.port.iter().chain(&expected.hardware) {
        let name = format!("rdma_{}_total", counter.to_lowercase());
        let (labels, value) = metric(&text, &name, "ifname=\"mlx5_1\"").unwrap_or_else(|| panic!("{name}"));
        assert_eq!(value, *value_in_sysfs, "{name}");
        assert!(labels.contains("pod_namespace=\"ml\",pod_name=\"p\""), "{labels}");
    }
    assert_eq!(metric(&text, "rdma_out_of_sequence_total", "mlx5_1").unwrap().1, 7);
    let (host_labels, _) = metric(&text, "rdma_port_state", "mlx5_0").unwrap();
    assert!(!host_labels.contains("pod_name"), "{host_labels}");
}

#[test]
fn driver_statistics_of_an_ethernet_interface_are_exported() {
    let host = SimulatedHostFixture::up(Profile::builtin("ethernet").unwrap());
    let collector = RdmaCounterCollector { hardware: host.hardware.clone(), node: "n1".to_owned() };
    let text = collector.collect(&PodsByPciAddress::default(), &[]).render();
    let (labels, _) = metric(&text, "rdma_rx_vport_unicast_bytes_total", "mlx5_0").expect(&text);
    assert!(labels.contains("net_dev_name=\"ens5f0np0\""), "{labels}");
    assert!(metric(&text, "rdma_tx_pause_total", "priority=\"0\"").is_some(), "{text}");
}
