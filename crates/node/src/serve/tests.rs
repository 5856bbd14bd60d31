mod devices;
mod tenants;

use super::{CniHandler, CniSocket};
use crate::{
    address::{self, ApiBlockStore, AssignmentGate, DetectionMode, DetectionSettings, OwnBlocks},
    caches::{NetworkDefinitionCache, NodePodCache, PodFacts, SpiderpoolCache},
    fake_api::FakeApi,
    kubelet::PodResourcesClient,
    observe::{NetworkStatusWriter, PodEventRecorder},
    resolve::{NetworkAccessPolicy, PodResolver},
};
use ferroband_api::annotation::{NETWORK_STATUS, NETWORKS};
use ferroband_attach::{
    message::{AttachmentOutcome, CniCall, DaemonReply, DaemonRequest},
    plan::{Plan, StepKind},
    socket::Channel,
};
use ferroband_daemon::{RevisionHistory, RevisionWatch};
use ferroband_kernel::{Error, Host, IpoibChild, IpoibMode, IpoibParent, Root};
use ferroband_model::{Fault, FaultCode, Guid, PKey, PodRef, RequestedPKey};
use ferroband_partition::{PartitionMembership, SandboxPartitions};
use futures::future::BoxFuture;
use kube::runtime::watcher::Event;
use serde_json::{Value, json};
use std::{fs, os::unix::net::UnixStream, path::PathBuf, sync::Arc, time::Duration};
use tempfile::TempDir;
use tokio::runtime::{Handle, Runtime};

/// A host with one IPoIB interface, `ib0`.
struct FakeIpoibHost(Root);

impl Host for FakeIpoibHost {
    fn root(&self) -> &Root {
        &self.0
    }

    fn is_simulated(&self) -> bool {
        true
    }

    fn ipoib_parent(&self, name: &str) -> Result<IpoibParent, Error> {
        match name {
            "ib0" => Ok(IpoibParent {
                index: 7,
                name: "ibs5f0".into(),
                pkey: PKey::DEFAULT,
                mode: IpoibMode::Datagram,
                mtu: 2044,
            }),
            other => Err(Error::NoParent { interface: other.into() }),
        }
    }

    fn create_ipoib_child(&self, _: &str, _: &IpoibChild) -> Result<(), Error> {
        panic!("the daemon creates no interfaces")
    }
}

/// The CNI server of a daemon with a fake API server.
struct CniServerFixture {
    api: FakeApi,
    handler: Arc<CniHandler>,
    socket: CniSocket,
    path: PathBuf,
    runtime: Runtime,
    folder: TempDir,
}

const PODS: &str = "/api/v1/namespaces/default/pods";
const NADS: &str = "/apis/k8s.cni.cncf.io/v1/namespaces/default/network-attachment-definitions";
const BLOCKS: &str = "/apis/ferroband.io/v1alpha1/addressblocks";
const EVENTS: &str = "/api/v1/namespaces/default/events";

fn definition(name: &str, master: &str) -> Value {
    let config = json!({
        "cniVersion": "0.3.1", "type": "ipoib", "name": name, "master": master,
        "ipam": {"type": "whereabouts", "range": "192.168.0.0/24"},
    });
    json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": name, "namespace": "default"}, "spec": {"config": config.to_string()},
    })
}

impl CniServerFixture {
    fn start() -> Self {
        Self::start_with(Arc::new(ferroband_testbed::UnmanagedPartitions))
    }

    fn start_with(partitions: Arc<dyn PartitionMembership>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let net_d = folder.path().join("net.d");
        fs::create_dir(&net_d).unwrap();
        let bridge = json!({"cniVersion": "0.4.0", "name": "k8s", "plugins": [
            {"type": "bridge"},
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ]});
        fs::write(net_d.join("10-k8s.conflist"), bridge.to_string()).unwrap();

        let runtime = Runtime::new().unwrap();
        let api = FakeApi::default();
        let _inside = runtime.enter();
        let client = api.client();
        let blocks = Arc::new(OwnBlocks::new("n1"));
        let revisions = Arc::new(RevisionWatch::new(RevisionHistory::default()));
        let store = ApiBlockStore::new(client.clone(), revisions);
        let (allocator, batch_writer) =
            address::create_allocator(blocks.clone(), AssignmentGate::open(), store);
        runtime.spawn(batch_writer.run());
        runtime.block_on(blocks.wait_synced());
        api.clear_calls();
        let handler = Arc::new(CniHandler {
            resolver: PodResolver {
                root: Root::at(folder.path()),
                coordinator_context: Default::default(),
                net_d,
                multus_conf_d: folder.path().join("conf.d"),
                policy: NetworkAccessPolicy::default(),
                pod_resources: PodResourcesClient::new(&Root::at(folder.path())),
                pods: NodePodCache::new(client.clone()),
                networks: NetworkDefinitionCache::new(client.clone()),
                spiderpool: SpiderpoolCache::new(client.clone(), "n1".into()),
                blocks,
                asserted: tokio::sync::watch::channel(Some(String::new())).1,
            },
            hardware: None,
            partitions,
            host: Arc::new(FakeIpoibHost(Root::at(folder.path()))),
            allocator,
            probing: DetectionSettings { duplicates: DetectionMode::Off, gateways: DetectionMode::Off },
            events: PodEventRecorder::new(client.clone(), "n1".into()),
            network_status: NetworkStatusWriter::new(client),
        });
        handler.resolver.pods.cache().apply(Event::InitDone);
        handler.resolver.networks.cache().apply(Event::InitDone);
        handler.resolver.spiderpool.mark_synced();
        let path = folder.path().join("cni.sock");
        let socket = CniSocket::open(&path, handler.clone(), Handle::current()).unwrap();
        drop(_inside);
        Self { api, handler, socket, path, runtime, folder }
    }

    fn add_network(&self, name: &str, master: &str) {
        let object = serde_json::from_value(definition(name, master)).unwrap();
        self.handler
            .resolver
            .networks
            .cache()
            .apply(Event::Apply((("default".into(), name.into()), Some(object))));
    }

    fn add_pod(&self, name: &str, networks: Option<&str>) {
        let annotations = networks.map(|networks| (NETWORKS.to_owned(), networks.to_owned()));
        let facts = PodFacts {
            uid: format!("uid-{name}"),
            annotations: annotations.into_iter().collect(),
            ..PodFacts::default()
        };
        self.handler
            .resolver
            .pods
            .cache()
            .apply(Event::Apply((("default".into(), name.into()), Some(facts))));
    }

    fn connect(&self) -> Channel {
        let channel = Channel::from(UnixStream::connect(&self.path).unwrap());
        channel.set_timeout(Some(Duration::from_secs(20))).unwrap();
        channel
    }

    fn send_request(&self, request: &DaemonRequest) -> DaemonReply {
        send_request(&mut self.connect(), request)
    }

    fn add_fault(&self, pod: &str) -> Fault {
        match self.send_request(&DaemonRequest::Add(call(pod))) {
            DaemonReply::Fault(fault) => fault,
            other => panic!("{other:?}"),
        }
    }

    /// Waits until the fake API server satisfies `what`. Needed for events, which are written after the
    /// reply.
    fn wait_until(&self, what: impl Fn(&FakeApi) -> bool) {
        for _ in 0..250 {
            if what(&self.api) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("{:?}", self.api.list_calls());
    }
}

fn send_request(channel: &mut Channel, request: &DaemonRequest) -> DaemonReply {
    channel.send(request).unwrap();
    channel.recv().unwrap()
}

fn call(pod: &str) -> CniCall {
    CniCall {
        container: format!("c-{pod}"),
        ifname: "eth0".into(),
        pod: Some(PodRef { namespace: "default".into(), name: pod.into(), uid: format!("uid-{pod}") }),
        config: json!({"name": "k8s", "runtimeConfig": {"portMappings": [{"hostPort": 80}]}}),
        ips: Vec::new(),
    }
}

fn add(channel: &mut Channel, pod: &str) -> Plan {
    match send_request(channel, &DaemonRequest::Add(call(pod))) {
        DaemonReply::Plan(plan) => plan,
        other => panic!("{other:?}"),
    }
}

#[test]
fn add_reads_nothing_and_writes_one_block_and_one_patch() {
    let node = CniServerFixture::start();
    node.add_network("ib", "ib0");
    node.add_pod("a", Some("ib"));
    let mut channel = node.connect();
    let plan = add(&mut channel, "a");
    let names: Vec<_> = plan.attachments.iter().map(|a| (a.network.as_str(), a.ifname.as_str())).collect();
    assert_eq!(names, [("k8s", "eth0"), ("default/ib", "net1")]);
    assert_eq!(plan.attachments[0].steps[1].config["runtimeConfig"]["portMappings"][0]["hostPort"], 80);
    assert!(matches!(plan.attachments[1].steps[0].kind, StepKind::Ipoib { daemon_ipam: true, .. }));

    let DaemonReply::Addresses(assigned) = send_request(&mut channel, &DaemonRequest::Addresses) else {
        panic!()
    };
    assert_eq!(
        (assigned[0].attachment, assigned[0].ips[0].address.to_string()),
        (1, "192.168.0.1/24".to_owned())
    );

    let outcome = |attachment, name: &str, ip: &str| AttachmentOutcome {
        attachment,
        result: json!({"interfaces": [{"name": name, "sandbox": "/x"}], "ips": [{"address": ip, "interface": 0}]}),
        device_info: None,
    };
    let outcomes = vec![outcome(0, "eth0", "10.1.0.2/24"), outcome(1, "net1", "192.168.0.1/24")];
    assert_eq!(send_request(&mut channel, &DaemonRequest::Attached(outcomes)), DaemonReply::Done);
    let block = format!("{BLOCKS}/default-192.168.0.0");
    assert_eq!(node.api.list_calls(), [format!("PATCH {block}"), format!("PATCH {PODS}/a/status")]);
    let patch = node.api.last_body("PATCH", &format!("{PODS}/a/status"));
    assert!(patch["metadata"]["annotations"][NETWORK_STATUS].as_str().unwrap().contains("192.168.0.1"));

    let release = DaemonRequest::Release { container: "c-a".into(), ifname: None };
    assert_eq!(node.send_request(&release), DaemonReply::Done);
    assert_eq!(node.api.get_object(&block).unwrap()["spec"]["entries"], json!({}));
    assert_eq!(node.send_request(&release), DaemonReply::Done, "a second DEL");
    assert_eq!(node.api.list_calls().len(), 3, "one write releases: {:?}", node.api.list_calls());
}

/// Adds a SpiderIPPool with the subnet 172.`third`.0.0/16.
fn add_pool(node: &CniServerFixture, name: &str, third: u8) {
    let object = json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": name},
        "spec": {
            "subnet": format!("172.{third}.0.0/16"), "gateway": format!("172.{third}.0.1"),
            "ips": [format!("172.{third}.0.100-172.{third}.0.120")],
        },
    });
    let object = serde_json::from_value(object).unwrap();
    let reading = ferroband_daemon::addresses::parse_pool(&object).map(Arc::new);
    node.handler
        .resolver
        .spiderpool
        .pools()
        .apply(Event::Apply(((String::new(), name.into()), Some(reading))));
}

fn spiderpool_definition(name: &str, pools: &[&str]) -> Value {
    let config = json!({
        "cniVersion": "0.3.1", "type": "ipoib", "name": name, "master": "ib0",
        "ipam": {"type": "spiderpool", "default_ipv4_ippool": pools},
    });
    json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": name, "namespace": "default"}, "spec": {"config": config.to_string()},
    })
}

// Case: ipam A01
#[test]
fn pools_provide_addresses_gateways_and_routes_of_all_networks_at_once() {
    let node = CniServerFixture::start();
    for (rail, third) in (91..99).enumerate() {
        add_pool(&node, &format!("v4-{third}"), third);
        let name = format!("rail{rail}");
        let object = serde_json::from_value(spiderpool_definition(&name, &[&format!("v4-{third}")])).unwrap();
        node.handler.resolver.networks.cache().apply(Event::Apply((("default".into(), name), Some(object))));
    }
    let networks: Vec<_> = (0..8).map(|rail| format!("rail{rail}")).collect();
    node.add_pod("a", Some(&networks.join(",")));
    let mut channel = node.connect();
    add(&mut channel, "a");
    let DaemonReply::Addresses(assigned) = send_request(&mut channel, &DaemonRequest::Addresses) else {
        panic!()
    };
    for (rail, assigned) in assigned.iter().enumerate() {
        let third = 91 + rail;
        assert_eq!(assigned.ips[0].address.to_string(), format!("172.{third}.0.100/16"));
        assert_eq!(assigned.ips[0].gateway.unwrap().to_string(), format!("172.{third}.0.1"));
        let route = assigned.routes[0];
        assert_eq!((route.dst.to_string().as_str(), route.gw), ("0.0.0.0/0", assigned.ips[0].gateway));
    }
    assert_eq!((assigned.len(), node.api.list_calls().len()), (8, 8), "one write for each rail's block");

    // A foreign plugin that delegates IPAM for the same interface of the same pod must get the same address.
    let config: Value =
        serde_json::from_str(spiderpool_definition("rail2", &["v4-93"])["spec"]["config"].as_str().unwrap())
            .unwrap();
    let again = CniCall { ifname: "net3".into(), config, ..call("a") };
    let DaemonReply::Addresses(again) = node.send_request(&DaemonRequest::Assign(again)) else { panic!() };
    assert_eq!(again[0].ips[0].address.to_string(), "172.93.0.100/16");
    let read = format!("GET {BLOCKS}/default-172.93.0.96");
    assert_eq!(node.api.list_calls()[8..], [read], "the entry is checked, because no watch shows changes");
}

#[test]
fn missing_pool_is_named_in_the_error_and_a_new_one_is_awaited() {
    let node = CniServerFixture::start();
    let object = serde_json::from_value(spiderpool_definition("ib", &["v4-91"])).unwrap();
    node.handler
        .resolver
        .networks
        .cache()
        .apply(Event::Apply((("default".into(), "ib".into()), Some(object))));
    node.add_pod("a", Some("ib"));
    let fault = node.add_fault("a");
    assert_eq!(fault.code, FaultCode::NoPool, "{fault}");
    assert!(fault.cause.contains("v4-91 does not exist") && fault.cause.contains("net1"), "{fault}");
    // The pool is created together with the pod, and its copy arrives a little later.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(200));
            add_pool(&node, "v4-91", 91);
        });
        let mut channel = node.connect();
        add(&mut channel, "a");
    });
    assert_eq!(node.api.list_calls().iter().filter(|call| call.starts_with("GET")).count(), 0);
}

// Case: cni 81
#[test]
fn missing_network_is_named_reported_once_and_found_once_created() {
    let node = CniServerFixture::start();
    node.add_pod("a", Some("ib"));
    let fault = node.add_fault("a");
    assert_eq!((fault.code, fault.what.as_str()), (FaultCode::NoNetworkFound, "network default/ib"));
    node.wait_until(|api| api.list_calls().contains(&format!("POST {EVENTS}")));
    let event = node.api.last_body("POST", EVENTS);
    assert_eq!((&event["reason"], &event["type"]), (&json!("NoNetworkFound"), &json!("Warning")));
    assert_eq!(event["involvedObject"]["uid"], "uid-a");
    assert!(event["message"].as_str().unwrap().contains("default/ib"), "{event}");
    // The kubelet retries continuously, but only one event must be written.
    node.add_fault("a");
    node.add_fault("a");
    assert_eq!(node.api.list_calls().iter().filter(|call| call.contains("events")).count(), 1);

    // A definition that is in the API server but not yet in the cache must be found.
    node.api.insert_object(&format!("{NADS}/ib"), definition("ib", "ib0"));
    add(&mut node.connect(), "a");
}

// Case: cni 91
#[test]
fn kubelet_is_queried_only_if_a_network_uses_devices() {
    let node = CniServerFixture::start();
    node.add_network("ib", "ib0");
    node.add_pod("a", Some("ib"));
    add(&mut node.connect(), "a");
    let mut object: Value = definition("vf", "ib0");
    object["metadata"]["annotations"] = json!({"k8s.v1.cni.cncf.io/resourceName": "x/vf"});
    let object = serde_json::from_value(object).unwrap();
    node.handler
        .resolver
        .networks
        .cache()
        .apply(Event::Apply((("default".into(), "vf".into()), Some(object))));
    node.add_pod("b", Some("vf"));
    let fault = node.add_fault("b");
    assert!(fault.code.cni_code() == 11 && fault.what.contains("default/b"), "{fault}");

    let folder = node.folder.path().join("var/lib/kubelet/device-plugins");
    fs::create_dir_all(&folder).unwrap();
    let entry =
        json!({"PodUID": "uid-b", "ContainerName": "c", "ResourceName": "x/vf", "DeviceIDs": {"0": ["d1"]}});
    let text = json!({"Data": {"PodDeviceEntries": [entry]}});
    fs::write(folder.join("kubelet_internal_checkpoint"), text.to_string()).unwrap();
    let plan = add(&mut node.connect(), "b");
    assert_eq!(plan.attachments[1].steps[0].config["deviceID"], "d1");
}

// Case: cni 114
#[test]
fn network_status_contains_the_device_info() {
    let node = CniServerFixture::start();
    node.add_network("ib", "ib0");
    node.add_pod("a", Some("ib"));
    let mut channel = node.connect();
    add(&mut channel, "a");
    send_request(&mut channel, &DaemonRequest::Addresses);
    let info = json!({"type": "pci", "version": "1.1.0", "pci": {"pci-address": "0000:3b:00.2"}});
    let result = json!({"interfaces": [{"name": "net1", "sandbox": "/x"}]});
    let outcome = AttachmentOutcome { attachment: 1, result, device_info: Some(info.clone()) };
    assert_eq!(send_request(&mut channel, &DaemonRequest::Attached(vec![outcome])), DaemonReply::Done);
    let patch = node.api.last_body("PATCH", &format!("{PODS}/a/status"));
    let status = patch["metadata"]["annotations"][NETWORK_STATUS].as_str().unwrap().to_owned();
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!((&status[0]["name"], &status[0]["device-info"]), (&json!("default/ib"), &info));
}

// Case: cni 80, cni 85
#[test]
fn isolation_and_default_networks_of_the_call_are_applied() {
    let node = CniServerFixture::start();
    node.add_network("ib", "ib0");
    node.add_pod("a", Some("ib"));
    let with = |more: Value| {
        let mut call = call("a");
        call.config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        node.send_request(&DaemonRequest::Add(call))
    };
    assert!(matches!(with(json!({"namespaceIsolation": true})), DaemonReply::Plan(_)), "its own namespace");
    node.add_pod("a", Some("other/ib"));
    let DaemonReply::Fault(fault) = with(json!({"namespaceIsolation": true})) else { panic!() };
    assert!(fault.code == FaultCode::InvalidAnnotation && fault.what.contains("other/ib"), "{fault}");

    node.add_pod("a", Some("ib"));
    let cluster_wide = json!({"defaultNetworks": ["ib", "ib"], "multusNamespace": "default"});
    let DaemonReply::Plan(plan) = with(cluster_wide) else { panic!() };
    let names: Vec<_> = plan.attachments.iter().map(|a| a.ifname.as_str()).collect();
    assert_eq!(names, ["eth0", "net1", "net2", "net3"]);
}

#[test]
fn wrapped_network_of_the_call_replaces_a_missing_file() {
    let node = CniServerFixture::start();
    node.add_pod("a", None);
    fs::remove_file(node.handler.resolver.net_d.join("10-k8s.conflist")).unwrap();
    assert_eq!(node.add_fault("a").code, FaultCode::NoDefaultNetwork);
    let mut call = call("a");
    call.config["delegates"] = json!([{"cniVersion": "1.0.0", "name": "cbr0", "type": "bridge"}]);
    let DaemonReply::Plan(plan) = node.send_request(&DaemonRequest::Add(call)) else { panic!() };
    assert_eq!(plan.attachments[0].network, "cbr0");
}

#[test]
fn missing_parent_is_reported_when_planning() {
    let node = CniServerFixture::start();
    node.add_network("ib", "ib9");
    node.add_pod("a", Some("ib"));
    let fault = node.add_fault("a");
    assert_eq!(fault.code, FaultCode::NoParent);
    assert!(fault.what.contains("default/ib") && fault.what.contains("ib9"), "{fault}");
    node.wait_until(|api| api.list_calls() == [format!("POST {EVENTS}")]);
    assert_eq!(node.api.last_body("POST", EVENTS)["reason"], "NoParent");
}

// Case: cni 99
#[test]
fn sandbox_of_a_recreated_pod_is_rejected() {
    let node = CniServerFixture::start();
    node.add_pod("a", None);
    let mut call = call("a");
    call.pod.as_mut().unwrap().uid = "uid-old".into();
    let pod = json!({"metadata": {"name": "a", "namespace": "default", "uid": "uid-a"}});
    node.api.insert_object(&format!("{PODS}/a"), pod);
    let DaemonReply::Fault(fault) = node.send_request(&DaemonRequest::Add(call)) else { panic!() };
    assert_eq!(fault.code, FaultCode::PodReplaced);
    assert!(fault.cause.contains("uid-old") && fault.cause.contains("uid-a"), "{fault}");
}

#[test]
fn add_waits_until_a_recreated_pod_is_in_the_cache() {
    let node = CniServerFixture::start();
    node.add_pod("a", None);
    let mut call = call("a");
    call.pod.as_mut().unwrap().uid = "uid-new".into();
    let handler = node.handler.clone();
    let coming = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        let facts = PodFacts { uid: "uid-new".into(), ..PodFacts::default() };
        handler.resolver.pods.cache().apply(Event::Apply((("default".into(), "a".into()), Some(facts))));
    });
    assert!(matches!(node.send_request(&DaemonRequest::Add(call)), DaemonReply::Plan(_)));
    coming.join().unwrap();
    assert_eq!(node.api.list_calls(), Vec::<String>::new());
}

#[test]
fn pod_missing_in_the_cache_is_read_once_from_the_api_server() {
    let node = CniServerFixture::start();
    let path = format!("{PODS}/late");
    let pod = json!({"metadata": {"name": "late", "namespace": "default", "uid": "uid-late"}});
    node.api.insert_object(&path, pod);
    let plan = add(&mut node.connect(), "late");
    assert_eq!(plan.attachments.len(), 1);
    assert_eq!(node.api.list_calls(), [format!("GET {path}")]);

    let fault = node.add_fault("unknown");
    assert_eq!(fault.code, FaultCode::PodNotFound);
}

#[test]
fn delegated_whereabouts_assigns_one_interface() {
    let node = CniServerFixture::start();
    node.add_pod("a", None);
    let mut call = call("a");
    call.ifname = "net7".into();
    call.config = json!({"name": "x", "type": "macvlan", "ipam": {"type": "whereabouts", "range": "10.7.0.0/24",
        "routes": [{"dst": "10.8.0.0/16"}]}});
    let DaemonReply::Addresses(assigned) = node.send_request(&DaemonRequest::Assign(call)) else { panic!() };
    assert_eq!(assigned[0].ips[0].address.to_string(), "10.7.0.1/24");
    assert_eq!(assigned[0].routes[0].dst.to_string(), "10.8.0.0/16");
    let other = DaemonRequest::Release { container: "c-a".into(), ifname: Some("net1".into()) };
    assert_eq!(node.send_request(&other), DaemonReply::Done);
    let block = || node.api.get_object(&format!("{BLOCKS}/default-10.7.0.0")).unwrap();
    let used = || block()["spec"]["entries"].as_object().unwrap().len();
    assert_eq!(used(), 1, "the release was for another interface");
    let same_interface = DaemonRequest::Release { container: "c-a".into(), ifname: Some("net7".into()) };
    assert_eq!(node.send_request(&same_interface), DaemonReply::Done);
    assert_eq!(used(), 0);
}

/// Partitions in which one namespace may use no P_Key.
struct ClosedPartitions(&'static str);

impl PartitionMembership for ClosedPartitions {
    fn begin_add(&self, sandbox: SandboxPartitions<'_>) -> Result<bool, Fault> {
        let keys: Vec<_> = sandbox.requests.iter().filter_map(|request| request.pkey).collect();
        assert_eq!(keys, [RequestedPKey::new(0x3e8).unwrap()]);
        match sandbox.pod.namespace == self.0 {
            true => Err(Fault::new(FaultCode::InvalidConfig, "network n", "not admitted", "ask")),
            false => Ok(true),
        }
    }

    fn wait_until_member<'a>(
        &'a self,
        _: SandboxPartitions<'a>,
        _: &'a [(usize, Guid)],
    ) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn remove_sandbox(&self, _: &str, _: Option<&str>) {}
}

#[test]
fn a_plugin_of_another_meta_plugin_gets_only_partitions_that_admit_its_pod() {
    let plugin = json!({"name": "n", "type": "ipoib", "master": "ib0", "pKey": 1000,
        "ipam": {"type": "whereabouts", "range": "192.168.0.0/24"}});
    let call = CniCall { ifname: "net1".into(), config: plugin, ..call("a") };
    for (closed, admitted) in [("other", true), ("default", false)] {
        let node = CniServerFixture::start_with(Arc::new(ClosedPartitions(closed)));
        node.add_pod("a", None);
        let mut channel = node.connect();
        match send_request(&mut channel, &DaemonRequest::AddInterface(call.clone())) {
            DaemonReply::Plan(plan) if admitted => {
                assert!(plan.membership && plan.pod.uid == "uid-a", "{plan:?}");
                assert_eq!((plan.attachments.len(), plan.attachments[0].ifname.as_str()), (1, "net1"));
                assert_eq!(send_request(&mut channel, &DaemonRequest::Members(vec![])), DaemonReply::Done);
                let DaemonReply::Addresses(assigned) = send_request(&mut channel, &DaemonRequest::Addresses)
                else {
                    panic!()
                };
                assert_eq!(assigned[0].ips[0].address.to_string(), "192.168.0.1/24");
            }
            DaemonReply::Fault(fault) if !admitted => assert_eq!(fault.cause, "not admitted"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn unexpected_messages_return_a_fault() {
    let node = CniServerFixture::start();
    for request in [DaemonRequest::Addresses, DaemonRequest::Attached(Vec::new())] {
        assert!(matches!(node.send_request(&request), DaemonReply::Fault(_)));
    }
    assert_eq!(node.send_request(&DaemonRequest::Status), DaemonReply::Done);
    fs::remove_file(node.handler.resolver.net_d.join("10-k8s.conflist")).unwrap();
    let DaemonReply::Fault(fault) = node.send_request(&DaemonRequest::Status) else { panic!() };
    assert_eq!(fault.code, FaultCode::NoDefaultNetwork);
}

#[test]
fn closed_socket_accepts_no_calls_but_finishes_running_ones() {
    use std::os::unix::fs::PermissionsExt;
    let node = CniServerFixture::start();
    assert_eq!(fs::metadata(&node.path).unwrap().permissions().mode() & 0o777, 0o600);
    node.add_network("ib", "ib0");
    node.add_pod("a", Some("ib"));
    let mut channel = node.connect();
    add(&mut channel, "a");

    node.socket.close();
    let wait_idle = |patience| node.runtime.block_on(node.socket.wait_idle(patience));
    assert!(!wait_idle(Duration::from_millis(50)), "an ADD is running");
    assert!(matches!(send_request(&mut channel, &DaemonRequest::Addresses), DaemonReply::Addresses(_)));
    drop(channel);
    // The accept thread must also release the slot that it acquired for the next call.
    assert!(wait_idle(Duration::from_secs(5)));
    let late = UnixStream::connect(&node.path);
    if let Ok(stream) = late {
        // The connection may still be accepted into the backlog, but it must get no answer.
        let mut channel = Channel::from(stream);
        let _ = channel.send(&DaemonRequest::Status);
        channel.recv::<DaemonReply>().unwrap_err();
    }
    drop(node.runtime);
}

// Case: cni 84
#[test]
fn cluster_network_is_resolved_by_name_directory_and_file() {
    let node = CniServerFixture::start();
    node.add_pod("a", None);
    let network = |name: &str| json!({"cniVersion": "1.0.0", "name": name, "type": "bridge"}).to_string();
    let folder = node.path.parent().unwrap().join("networks");
    let conf_d = node.handler.resolver.multus_conf_d.clone();
    for folder in [&folder, &conf_d] {
        fs::create_dir_all(folder).unwrap();
    }
    fs::write(folder.join("20-second.conflist"), network("second")).unwrap();
    fs::write(folder.join("10-first.conf"), network("first")).unwrap();
    fs::write(conf_d.join("x.conf"), network("by-name")).unwrap();
    let default = |named: &str| {
        let mut call = call("a");
        call.config["clusterNetwork"] = json!(named);
        match node.send_request(&DaemonRequest::Add(call)) {
            DaemonReply::Plan(plan) => Ok(plan.attachments[0].network.clone()),
            DaemonReply::Fault(fault) => Err(fault),
            other => panic!("{other:?}"),
        }
    };
    // Paths are relative to the host's root, which is the test's directory.
    let below = |path: &std::path::Path| {
        let root = node.handler.host.root().base().to_owned();
        format!("/{}", path.strip_prefix(&root).unwrap().display())
    };
    assert_eq!(default("by-name").unwrap(), "by-name");
    assert_eq!(default(&below(&folder)).unwrap(), "first");
    assert_eq!(default(&below(&folder.join("20-second.conflist"))).unwrap(), "second");
    let fault = default("nowhere").unwrap_err();
    assert!(fault.code == FaultCode::NoDefaultNetwork && fault.what.contains("nowhere"), "{fault}");
    assert_eq!(default("/no/such/file.conf").unwrap_err().code, FaultCode::NoDefaultNetwork);
}

#[test]
fn quarantine_takes_only_the_duplicate_address_from_the_interface() {
    let node = CniServerFixture::start();
    let pools = ["10.1.0.0/24", "10.2.0.0/24"].map(|range| {
        let config = json!({"type": "whereabouts", "range": range});
        let config =
            ferroband_address::whereabouts::WhereaboutsConfig::parse(config.as_object().unwrap()).unwrap();
        config.requests(&call("a").pod.unwrap(), true, "net1", "c-a").remove(0)
    });
    let [first, mut second] = pools;
    second.ordinal = 1;
    let requests = vec![first, second];
    let assign = || {
        let assigned = node.handler.allocator.assign("network a".into(), requests.clone());
        node.runtime.block_on(assigned).unwrap().into_iter().map(|(ip, _)| ip.addr()).collect::<Vec<_>>()
    };
    let before = assign();
    for address in &before[..1] {
        node.runtime.block_on(node.handler.quarantine(&requests, *address)).unwrap();
    }
    let after = assign();
    assert_ne!(after[0], before[0], "the duplicate address is replaced");
    node.runtime.block_on(node.handler.quarantine(&requests, after[0])).unwrap();
    let owners = |subnet: &str| -> Vec<(Value, Value, Value)> {
        let block = node.api.get_object(&format!("{BLOCKS}/default-{subnet}")).unwrap();
        let entries = block["spec"]["entries"].as_object().unwrap().values();
        entries.map(|e| (e["pod"].clone(), e["interface"].clone(), e["container"].clone())).collect()
    };
    assert_eq!(owners("10.2.0.0"), [(json!("default/a"), json!("net1"), json!("c-a"))], "never released");
    let [one, two] = owners("10.1.0.0").try_into().unwrap();
    assert!(one.0.as_str().unwrap().starts_with("quarantine/") && one.1 != two.1, "{one:?} {two:?}");
}
