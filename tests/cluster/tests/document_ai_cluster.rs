//! Document 003, an AI cluster: adapters in InfiniBand mode and one network per GPU on the nodes worker1 and worker2.

use ferroband_cluster_tests::fabric::UfmFabric;
use ferroband_cluster_tests::hardware::wait_allocatable;
use ferroband_cluster_tests::inspect::{first_ipv4, network_status, pod_interface};
use ferroband_cluster_tests::{
    TestObjects, chart_path, document_manifests, eventually, exec_in_pod, exec_on, helm, kubectl,
    kubectl_get, note_vmlab_only, pod_with_networks, read_example, start_own_lab, wait_network_definition,
    wait_pods_ready,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const WORKERS: [&str; 2] = ["worker1", "worker2"];

/// A lab as in the document: two nodes with eight adapters each.
fn start_cluster(objects: &mut TestObjects) {
    start_own_lab(&["--profile", "dgx", "--node-names", "worker1,worker2"]);
    // Host preparation that the document refers to: RDMA devices in exclusive mode.
    for worker in WORKERS {
        exec_on(worker, "ferroband sim netns exclusive").stdout_or_panic();
    }
    objects.apply("{apiVersion: v1, kind: Namespace, metadata: {name: spiderpool}}");
}

/// Manifests of the document: policy, network, network with a P_Key (abbreviated), values of the chart.
fn document() -> [String; 4] {
    let files = ["policy.yaml", "network.yaml", "partition.yaml", "rdma-tools-values.yaml"];
    let files = files.map(|file| format!("ai-cluster/{file}"));
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    document_manifests("003", &files).try_into().expect("four commands")
}

fn name(pod: &Value) -> &str {
    pod["metadata"]["name"].as_str().unwrap_or_default()
}

/// Objects that the document only mentions: policy, pool and network of each GPU. One rail gets its own MTU.
fn rail_manifests() -> String {
    let text = read_example("ai-cluster/rails.yaml");
    let resource = "    resourceName: spidernet.io/gpu8sriov\n";
    assert!(text.contains(resource), "{text}");
    text.replace(resource, &format!("{resource}    mtu: 1500\n"))
}

#[test]
fn policy_and_network_of_the_document_work_as_printed() {
    let mut objects = TestObjects::default();
    start_cluster(&mut objects);
    let [policy, network, ..] = document();
    objects.apply(&policy);
    for worker in WORKERS {
        // Twelve functions of an InfiniBand adapter with the name of an Ethernet port.
        wait_allocatable(worker, "spidernet.io/eno3np2", "12");
        let state = kubectl_get(&["-n", "ferroband-system", "sriovnetworknodestates", worker]);
        let adapters = state["status"]["interfaces"].as_array().cloned().unwrap_or_default();
        let adapter = adapters.iter().find(|adapter| adapter["name"] == "eno3np2").expect("the adapter");
        assert_eq!((&adapter["linkType"], &adapter["numVfs"]), (&json!("IB"), &json!(12)), "{adapter}");
    }
    // The pool's subnet has host bits set.
    objects.apply(&network);
    let rendered = wait_network_definition("spiderpool", "gpu1-ib-sriov", 60);
    let resource = &rendered["metadata"]["annotations"]["k8s.v1.cni.cncf.io/resourceName"];
    assert_eq!(resource, "spidernet.io/eno3np2");
    let config: Value =
        serde_json::from_str(rendered["spec"]["config"].as_str().unwrap_or_default()).expect("JSON");
    let plugin = config["plugins"].as_array().and_then(|all| all.first()).cloned().unwrap_or(config);
    assert_eq!((&plugin["type"], &plugin["rdmaIsolation"]), (&json!("ib-sriov"), &json!(true)), "{plugin}");
    for (pod, worker) in ["one", "two"].into_iter().zip(WORKERS) {
        objects.apply(&pod_with_networks(pod, worker, "spiderpool/gpu1-ib-sriov"));
    }
    let pods = ["one", "two"].map(|pod| objects.wait_ready(pod, 120));
    let limits = &pods[0]["spec"]["containers"][0]["resources"]["limits"];
    assert_eq!(limits["spidernet.io/eno3np2"], "1", "the resource is injected: {limits}");
    let (there, prefix) = first_ipv4(&pod_interface("two", "net1"));
    assert!(there.starts_with("172.16.11.") && prefix == 16, "{there}/{prefix}");
    exec_in_pod("one", &format!("ping -c 2 -w 20 -I net1 {there}")).stdout_or_panic();
    note_vmlab_only("with rdmaIsolation the RDMA device is visible only in the pod");
}

#[test]
fn secret_of_the_document_programs_a_partition_at_ufm() {
    let mut objects = TestObjects::default();
    start_cluster(&mut objects);
    let fabric = UfmFabric::up();
    let [policy, network, partition, _] = document();
    objects.apply(&policy).apply(&network);
    for worker in WORKERS {
        wait_allocatable(worker, "spidernet.io/eno3np2", "12");
    }
    // The abbreviated fields are those of the document's first network.
    let rest = "resourceName: spidernet.io/eno3np2\n    ippools:\n      ipv4: [gpu1-net11]";
    assert!(partition.contains("pkey: 1000"), "{partition}");
    objects.apply(&partition.replace("...", rest));
    for (pod, worker) in ["in-1", "in-2"].into_iter().zip(WORKERS) {
        objects.apply(&pod_with_networks(pod, worker, "spiderpool/ib-sriov"));
    }
    for pod in ["in-1", "in-2"] {
        objects.wait_ready(pod, 120);
    }
    assert_eq!(fabric.members(1000).len(), 2, "both were added at UFM before they ran");
    let (there, _) = first_ipv4(&pod_interface("in-2", "net1"));
    exec_in_pod("in-1", &format!("ping -c 2 -w 20 -I net1 {there}")).stdout_or_panic();
    kubectl(&["delete", "pod", "in-1", "in-2", "--wait", "--timeout=60s"]).stdout_or_panic();
    eventually("UFM has no member", 60, || match fabric.members(1000) {
        none if none.is_empty() => Ok(()),
        some => Err(format!("{some:?}")),
    });
}

#[test]
fn chart_of_the_document_attaches_eight_networks() {
    let mut objects = TestObjects::default();
    start_cluster(&mut objects);
    let [.., values] = document();
    objects.apply(&rail_manifests());
    for worker in WORKERS {
        for number in 1..=8 {
            wait_allocatable(worker, &format!("spidernet.io/gpu{number}sriov"), "2");
        }
    }
    let file = std::env::temp_dir().join(format!("ferroband-values-{}.yaml", std::process::id()));
    std::fs::write(&file, values).expect("a scratch file");
    // The lab has the tools image under its own name.
    let image = "image.registry=ferroband.lab,image.repository=tools,image.tag=1";
    let file_name = file.to_string_lossy();
    let tools = chart_path("rdma-tools");
    let installed = helm(&["install", "rdma-tools", &tools, "-f", &file_name, "--set-string", image]);
    let _ = std::fs::remove_file(&file);
    let _gone = RdmaToolsRelease;
    installed.stdout_or_panic();
    let pods = wait_pods_ready("app.kubernetes.io/name=rdma-tools", 2, 180);
    let on_nodes: BTreeSet<_> = pods.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()).collect();
    assert_eq!(on_nodes, BTreeSet::from(WORKERS));
    for pod in &pods {
        assert_nine_interfaces(pod);
    }
    assert_all_rails_reach(&pods[0], &pods[1]);
    assert_in_metrics(&pods[0]);
    wait_gateways_probed(&pods[0]);
    note_vmlab_only("`rdma link` in the pod shows its eight devices");
    note_vmlab_only("`ib_read_lat` between the pods");

    // Resources are injected into a pod without any.
    let annotation =
        pods[0]["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"].as_str().expect("networks");
    objects.apply(&pod_with_networks("injected", "worker2", annotation));
    let pod = objects.wait_ready("injected", 120);
    let limits = pod["spec"]["containers"][0]["resources"]["limits"].as_object().cloned().unwrap_or_default();
    let expected: BTreeSet<String> = (1..=8).map(|number| format!("spidernet.io/gpu{number}sriov")).collect();
    assert_eq!(limits.keys().cloned().collect::<BTreeSet<_>>(), expected);
    assert_nine_interfaces(&pod);
    assert_all_rails_reach(&pods[0], &pod);
}

/// Asserts the default interface and one per network, each with an address of its pool and its own RDMA device.
#[track_caller]
fn assert_nine_interfaces(pod: &Value) {
    let links = exec_in_pod(name(pod), "ip -j link").stdout_or_panic();
    let links: Value = serde_json::from_str(&links).expect("JSON");
    let names: BTreeSet<_> =
        links.as_array().into_iter().flatten().filter_map(|link| link["ifname"].as_str()).collect();
    let expected = ["eth0", "net1", "net2", "net3", "net4", "net5", "net6", "net7", "net8"];
    assert_eq!(names.into_iter().filter(|name| *name != "lo").collect::<Vec<_>>(), expected);
    for number in 1..=8 {
        let link = pod_interface(name(pod), &format!("net{number}"));
        let (address, prefix) = first_ipv4(&link);
        assert!(
            address.starts_with(&format!("172.16.{}.", 10 + number)) && prefix == 24,
            "{address}/{prefix}"
        );
        assert_eq!(link["mtu"] == 1500, number == 8, "only the eighth network sets an MTU: {link}");
    }
    let status = network_status(pod);
    let devices: BTreeSet<_> =
        status.iter().filter_map(|s| s["device-info"]["pci"]["rdma-device"].as_str()).collect();
    assert_eq!(devices.len(), 8, "eight RDMA devices: {status:?}");
}

#[track_caller]
fn assert_all_rails_reach(from: &Value, to: &Value) {
    for number in 1..=8 {
        let link = format!("net{number}");
        let (there, _) = first_ipv4(&pod_interface(name(to), &link));
        exec_in_pod(name(from), &format!("ping -c 1 -w 20 -I {link} {there}")).stdout_or_panic();
    }
}

/// Asserts that the node's metrics name the pod for its eight devices.
#[track_caller]
fn assert_in_metrics(pod: &Value) {
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    let page = exec_on(node, "curl -sf http://127.0.0.1:5711/metrics").stdout_or_panic();
    let label = format!("pod_name=\"{}\"", name(pod));
    let sent =
        page.lines().filter(|line| line.starts_with("rdma_port_xmit_data_total{") && line.contains(&label));
    assert_eq!(sent.count(), 8, "{page}");
}

/// Waits until the node daemon has logged every gateway as unreachable: no gateway exists in the lab.
#[track_caller]
fn wait_gateways_probed(pod: &Value) {
    let field = format!("spec.nodeName={}", pod["spec"]["nodeName"].as_str().unwrap_or_default());
    let label = ["-l", "app.kubernetes.io/component=node", "--field-selector", &field, "-o", "name"];
    let daemon =
        kubectl(&[&["-n", "ferroband-system", "get", "pods"], &label[..]].concat()).stdout_or_panic();
    eventually("log messages about all gateways", 60, || {
        let log = kubectl(&["-n", "ferroband-system", "logs", daemon.trim()]).stdout_or_panic();
        let silent = |third| !log.contains(&format!("gateway 172.16.{third}.254 is unreachable"));
        let missing: Vec<_> = (11..=18).filter(|third| silent(*third)).collect();
        if missing.is_empty() { Ok(()) } else { Err(format!("{missing:?}")) }
    });
}

/// The Helm release of rdma-tools, uninstalled on drop.
struct RdmaToolsRelease;

impl Drop for RdmaToolsRelease {
    fn drop(&mut self) {
        helm(&["uninstall", "rdma-tools", "--wait", "--timeout=60s"]);
    }
}
