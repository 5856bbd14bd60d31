use super::{
    MetricsExporter, MetricsSandbox, PodWithController, PodsByPciAddress, RdmaCounterCollector,
    list_sandboxes,
};
use crate::caches::{PodOwner, WatchCache};
use ferroband_kernel::{LinuxHost, Root};
use std::{fs, os::unix::fs::symlink, path::Path, sync::Arc};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

fn write_file(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Creates the sysfs files of a virtual function with an RDMA device.
fn create_vf(base: &Path) {
    let bus = base.join("sys/devices/pci0000:3a");
    let function = bus.join("0000:3b:00.2");
    fs::create_dir_all(bus.join("0000:3b:00.0/net/ibs1")).unwrap();
    fs::create_dir_all(function.join("net/ibs1v0")).unwrap();
    symlink("../0000:3b:00.0", function.join("physfn")).unwrap();
    let device = base.join("sys/class/infiniband/mlx5_2");
    for (name, text) in [
        ("node_guid", "b859:9f03:00a1:b2c4\n"),
        ("sys_image_guid", "b859:9f03:00a1:b2c0\n"),
        ("tc/1/traffic_class", "Global tclass=106\n"),
        ("ports/1/state", "4: ACTIVE\n"),
        ("ports/1/lid", "0x1f\n"),
        ("ports/1/rate", "2.5 Gb/sec (1X SDR)\n"),
        ("ports/1/counters/port_xmit_data", "4294967297\n"),
        ("ports/1/counters/VL15_dropped", "3\n"),
        ("ports/1/hw_counters/out_of_sequence", "7\n"),
        ("ports/1/hw_counters/lifespan", "10\n"),
        ("ports/1/hw_counters/broken", "N/A (no PMA)\n"),
    ] {
        write_file(&device.join(name), text);
    }
    symlink("../../../devices/pci0000:3a/0000:3b:00.2", device.join("device")).unwrap();
}

fn counters(base: &Path) -> RdmaCounterCollector {
    RdmaCounterCollector { hardware: Arc::new(LinuxHost::new(Root::at(base))), node: "n1".to_owned() }
}

const HOST: &str = "node_name=\"n1\",ifname=\"mlx5_2\",net_dev_name=\"ibs1v0\",is_root=\"false\",\
    node_guid=\"b859:9f03:00a1:b2c4\",sys_image_guid=\"b859:9f03:00a1:b2c0\",rdma_parent_name=\"ibs1\"";

#[test]
fn counters_have_sysfs_values_and_spiderpools_names() {
    let folder = tempfile::tempdir().unwrap();
    create_vf(folder.path());
    let collector = counters(folder.path());
    let text = collector.collect(&PodsByPciAddress::default(), &[]).render();
    for line in [
        "# TYPE rdma_out_of_sequence_total counter".to_owned(),
        format!("rdma_out_of_sequence_total{{{HOST},port=\"1\"}} 7"),
        format!("rdma_port_xmit_data_total{{{HOST},port=\"1\"}} 4294967297"),
        format!("rdma_vl15_dropped_total{{{HOST},port=\"1\"}} 3"),
        format!("rdma_device_tos_total{{{HOST}}} 106"),
        format!("rdma_vport_speed_mbps_total{{{HOST},port=\"1\"}} 2500"),
        "# TYPE rdma_port_state gauge".to_owned(),
        format!("rdma_port_state{{{HOST},port=\"1\"}} 4"),
        format!("rdma_port_lid{{{HOST},port=\"1\"}} 31"),
    ] {
        assert!(text.lines().any(|known| known == line), "{line}\nis not in\n{text}");
    }
    assert!(!text.contains("lifespan") && !text.contains("broken"), "{text}");
    let names: Vec<_> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
    assert_eq!(text.matches("# HELP").count(), names.len(), "every family has one HELP line");
}

// Case: ipam R01
#[test]
fn device_of_a_pod_has_pod_labels() {
    let folder = tempfile::tempdir().unwrap();
    create_vf(folder.path());
    let collector = counters(folder.path());
    let owner = PodWithController {
        namespace: "ml".to_owned(),
        name: "train-\"0\"".to_owned(),
        controller: Some(("apps/v1".to_owned(), "StatefulSet".to_owned(), "train".to_owned())),
    };
    let text = collector.collect(&PodsByPciAddress::single("0000:3b:00.2", owner), &[]).render();
    let labels = "pod_namespace=\"ml\",pod_name=\"train-\\\"0\\\"\",owner_api_version=\"apps/v1\",\
        owner_kind=\"StatefulSet\",owner_namespace=\"ml\",owner_name=\"train\"";
    assert!(text.contains(&format!("rdma_vl15_dropped_total{{{HOST},{labels},port=\"1\"}} 3")), "{text}");
}

#[test]
fn sandboxes_are_listed_from_journals() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::at(folder.path());
    let journal =
        r#"{"container":"c1","netns":"/run/netns/a","pod":{"namespace":"ml","name":"p","uid":"u1"}}"#;
    write_file(&root.state("journal/c1.json"), journal);
    write_file(&root.state("journal/c2.json"), "half of a jour");
    let pods: WatchCache<PodOwner> = WatchCache::default();
    let controller = Some(("batch/v1".to_owned(), "Job".to_owned(), "j".to_owned()));
    let facts = PodOwner { uid: "u1".to_owned(), controller: controller.clone() };
    pods.apply(kube::runtime::watcher::Event::Apply((("ml".to_owned(), "p".to_owned()), Some(facts))));
    let owner = PodWithController { namespace: "ml".to_owned(), name: "p".to_owned(), controller };
    assert_eq!(list_sandboxes(&root, &pods), [MetricsSandbox { netns: "/run/netns/a".into(), pod: owner }]);
}

#[tokio::test]
async fn metrics_page_has_pod_labels_from_the_kubelets_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    create_vf(folder.path());
    let checkpoint = r#"{"Data":{"PodDeviceEntries":[{"PodUID":"u1","ResourceName":"a.b/v","DeviceIDs":{"0":["0000:3b:00.2"]}}]}}"#;
    fs::write(folder.path().join("kubelet_internal_checkpoint"), checkpoint).unwrap();
    let pods: Arc<WatchCache<PodOwner>> = Arc::default();
    let facts = PodOwner { uid: "u1".to_owned(), ..PodOwner::default() };
    let name = ("ml".to_owned(), "p".to_owned());
    pods.apply(kube::runtime::watcher::Event::Apply((name, Some(facts))));
    let exporter = MetricsExporter {
        counters: counters(folder.path()),
        device_plugins_dir: folder.path().to_owned(),
        pods,
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(exporter.accept_connections(listener));
    let request_page = async |request: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        response
    };
    let page = request_page("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.contains("version=0.0.4"), "{page}");
    assert!(page.contains("pod_namespace=\"ml\",pod_name=\"p\""), "{page}");
    assert!(request_page("GET / HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 404"));
    assert!(request_page("POST /metrics HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 405"));
    serving.abort();
}
