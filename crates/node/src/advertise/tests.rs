//! Tests of the device plugin with a fake kubelet.

mod path_authority;

use super::{
    AllocatedDevices, DeviceState, KubeletDir, RegistrationMode,
    device_state::run_device_state,
    port_health::PortHealth,
    registry::{InfoRequest, RegistrationStatus, registration_client::RegistrationClient},
    run_device_plugins,
    wire::{
        AllocateRequest, ContainerAllocateRequest, ContainerPreferredAllocationRequest, DeviceSpec, Empty,
        ListAndWatchResponse, PreferredAllocationRequest, RegisterRequest,
        device_plugin_client::DevicePluginClient,
        registration_server::{Registration, RegistrationServer},
    },
};
use crate::{
    allocate::ContainerAllocator,
    discover::{DiscoveryRoots, Inventory, InventoryRdmaDevice},
    pools::{
        PoolConfig,
        fixture::{A, jarvice_pool, node, parse_config, vf_address},
    },
};
use ferroband_kernel::Root;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    net::UnixListener,
    sync::{mpsc, watch},
    task::JoinHandle,
    time::timeout,
};
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::{
    Request, Response, Status, Streaming,
    transport::{Channel, Endpoint, Server},
};

/// The kubelet's side: a registration service that passes the requests to the test.
struct FakeKubelet {
    folder: PathBuf,
    registrations: mpsc::UnboundedReceiver<RegisterRequest>,
    server: JoinHandle<()>,
}

struct FakeRegistrationService(mpsc::UnboundedSender<RegisterRequest>);

#[tonic::async_trait]
impl Registration for FakeRegistrationService {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<Empty>, Status> {
        self.0.send(request.into_inner()).map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(Empty {}))
    }
}

impl FakeKubelet {
    /// Removes all sockets in the device plugin directory and serves `kubelet.sock`, as a starting kubelet does.
    fn start(kubelet: &Path) -> Self {
        let folder = &kubelet.join("device-plugins");
        fs::create_dir_all(folder).unwrap();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|end| end == "sock") {
                fs::remove_file(path).unwrap();
            }
        }
        let listener = UnixListener::bind(folder.join("kubelet.sock")).unwrap();
        let (sender, registrations) = mpsc::unbounded_channel();
        let server = tokio::spawn(async move {
            let service = RegistrationServer::new(FakeRegistrationService(sender));
            let incoming = UnixListenerStream::new(listener);
            Server::builder().add_service(service).serve_with_incoming(incoming).await.unwrap();
        });
        Self { folder: folder.to_owned(), registrations, server }
    }

    /// Waits for the next registration and connects to the plugin.
    async fn next_registration(&mut self) -> (RegisterRequest, DevicePluginClient<Channel>) {
        let request = timeout(Duration::from_secs(5), self.registrations.recv());
        let request = request.await.expect("registered in time").unwrap();
        let socket = format!("unix://{}", self.folder.join(&request.endpoint).display());
        let channel = Endpoint::from_shared(socket).unwrap().connect().await.unwrap();
        (request, DevicePluginClient::new(channel))
    }

    fn stop(self) {
        self.server.abort();
    }
}

fn inventory(uverbs: &[&str]) -> Arc<Inventory> {
    let path = |file: &&str| PathBuf::from(format!("/x/dev/infiniband/{file}"));
    Arc::new(Inventory {
        devices: uverbs.iter().map(|file| InventoryRdmaDevice::named("mlx5_0", Some(path(file)))).collect(),
        verbs: uverbs.iter().map(path).collect(),
        rdma_cm: Some(PathBuf::from("/x/dev/infiniband/rdma_cm")),
        ..Default::default()
    })
}

async fn next_list(list: &mut Streaming<ListAndWatchResponse>) -> Vec<(String, String)> {
    let message = timeout(Duration::from_secs(5), list.message()).await.expect("a list in time");
    message.unwrap().unwrap().devices.into_iter().map(|device| (device.id, device.health)).collect()
}

/// Waits for the next device list that the plugin sends, and returns the ids of its healthy devices.
async fn next_healthy(list: &mut Streaming<ListAndWatchResponse>) -> Vec<String> {
    next_list(list).await.into_iter().filter(|(_, health)| health == "Healthy").map(|(id, _)| id).collect()
}

/// The plugin under test. Dropping it stops the plugin.
struct DevicePluginFixture {
    inventory: watch::Sender<Arc<Inventory>>,
    configured: watch::Sender<Arc<PoolConfig>>,
    registered: watch::Receiver<bool>,
    _stop: tokio_util::sync::DropGuard,
}

fn start_with_pools(folder: &Path, first: Arc<Inventory>, pools: PoolConfig) -> DevicePluginFixture {
    let kubelet = KubeletDir { path: folder.to_owned(), registration: RegistrationMode::Auto };
    let (inventory, inventory_receiver) = watch::channel(first);
    let (configured, config_receiver) = watch::channel(Arc::new(pools));
    let (registered_sender, registered) = watch::channel(false);
    let (state_sender, state_receiver) = watch::channel(Arc::new(DeviceState::default()));
    let (stop, allocated) = (CancellationToken::new(), AllocatedDevices::default());
    let root = Root::at(folder.join("root"));
    let allocator = ContainerAllocator::new(DiscoveryRoots {
        device_dir: root.dev("infiniband"),
        simulated: false,
        root,
    });
    tokio::spawn(run_device_state(
        config_receiver,
        inventory_receiver,
        kubelet.clone(),
        allocated.clone(),
        state_sender,
    ));
    tokio::spawn(run_device_plugins(
        kubelet,
        state_receiver,
        Arc::new(allocator),
        allocated,
        registered_sender,
        stop.clone(),
    ));
    DevicePluginFixture { inventory, configured, registered, _stop: stop.drop_guard() }
}

fn start_jarvice(folder: &Path, first: Arc<Inventory>) -> DevicePluginFixture {
    start_with_pools(folder, first, PoolConfig { pools: vec![jarvice_pool()], problems: Vec::new() })
}

fn allocate_request(ids: &[&str]) -> AllocateRequest {
    let devices_ids = ids.iter().map(|id| (*id).to_owned()).collect();
    AllocateRequest { container_requests: vec![ContainerAllocateRequest { devices_ids }] }
}

const VFS: &str =
    r#"{"resourceList":[{"resourceName":"ib_vfs","selectors":{"pfNames":["ibs1"],"isRdma":true}}]}"#;

// Case: operator C101
#[tokio::test]
async fn one_device_has_a_stable_id_and_gets_each_device_file_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut kubelet = FakeKubelet::start(dir.path());
    let _fixture = start_jarvice(dir.path(), inventory(&["uverbs0", "uverbs1"]));
    let (request, mut plugin) = kubelet.next_registration().await;
    assert_eq!((request.version.as_str(), request.resource_name.as_str()), ("v1beta1", "jarvice.com/rdma"));
    assert!(!request.endpoint.contains('/'), "{}", request.endpoint);

    let mut list = plugin.list_and_watch(Empty {}).await.unwrap().into_inner();
    assert_eq!(next_list(&mut list).await, [("rdma-0".to_owned(), "Healthy".to_owned())]);

    let container = ContainerAllocateRequest { devices_ids: vec!["rdma-0".to_owned()] };
    let request = AllocateRequest { container_requests: vec![container.clone(), container] };
    let response = plugin.allocate(request).await.unwrap().into_inner().container_responses;
    let file = |name: &str| DeviceSpec {
        container_path: format!("/dev/infiniband/{name}"),
        host_path: format!("/x/dev/infiniband/{name}"),
        permissions: "rw".to_owned(),
    };
    assert_eq!(response.len(), 2);
    for container in response {
        assert_eq!(container.devices, [file("uverbs0"), file("uverbs1"), file("rdma_cm")]);
        assert!(container.envs.is_empty() && container.mounts.is_empty());
    }
}

// Case: operator C80
#[tokio::test]
async fn allocate_rejects_an_unknown_id_and_accepts_an_empty_request() {
    let dir = tempfile::tempdir().unwrap();
    let mut kubelet = FakeKubelet::start(dir.path());
    let _fixture = start_jarvice(dir.path(), inventory(&["uverbs0"]));
    let (_, mut plugin) = kubelet.next_registration().await;
    let refused = plugin.allocate(allocate_request(&["rdma-7"])).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::NotFound);
    assert!(refused.message().contains("rdma-7"), "{refused}");
    let empty = plugin.allocate(AllocateRequest::default()).await.unwrap().into_inner();
    assert!(empty.container_responses.is_empty());
    let none = plugin.allocate(allocate_request(&[])).await.unwrap().into_inner();
    assert!(none.container_responses[0].devices.is_empty());
}

// Case: operator C103
#[tokio::test]
async fn resource_is_registered_with_the_first_device_and_the_list_follows() {
    let dir = tempfile::tempdir().unwrap();
    let mut kubelet = FakeKubelet::start(dir.path());
    let fixture = start_jarvice(dir.path(), Arc::default());
    assert!(timeout(Duration::from_millis(300), kubelet.registrations.recv()).await.is_err());

    fixture.inventory.send_replace(inventory(&["uverbs0"]));
    let (_, mut plugin) = kubelet.next_registration().await;
    let mut list = plugin.list_and_watch(Empty {}).await.unwrap().into_inner();
    assert_eq!(next_list(&mut list).await.len(), 1);

    // A second RDMA device does not change the device list, because the pool has one device for the whole
    // node. Removing all RDMA devices must empty the list.
    fixture.inventory.send_replace(inventory(&["uverbs0", "uverbs1"]));
    fixture.inventory.send_replace(Arc::default());
    assert!(next_list(&mut list).await.is_empty());

    let without_file =
        Inventory { devices: vec![InventoryRdmaDevice::named("mlx5_0", None)], ..Default::default() };
    fixture.inventory.send_replace(Arc::new(without_file));
    assert_eq!(next_list(&mut list).await, [("rdma-0".to_owned(), "Unhealthy".to_owned())]);
}

#[tokio::test]
async fn restarted_kubelet_gets_a_registration_within_a_second() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let mut fixture = start_jarvice(folder, inventory(&["uverbs0"]));
    let mut kubelet = FakeKubelet::start(folder);
    kubelet.next_registration().await;
    fixture.registered.wait_for(|registered| *registered).await.unwrap();

    for _ in 0..3 {
        kubelet.stop();
        kubelet = FakeKubelet::start(folder);
        let back = Instant::now();
        let (_, mut plugin) = kubelet.next_registration().await;
        assert!(back.elapsed() < Duration::from_secs(1), "{:?}", back.elapsed());
        let mut list = plugin.list_and_watch(Empty {}).await.unwrap().into_inner();
        assert_eq!(next_list(&mut list).await, [("rdma-0".to_owned(), "Healthy".to_owned())]);
    }
}

#[tokio::test]
async fn several_resources_are_registered_and_functions_report_their_numa_node() {
    let dir = tempfile::tempdir().unwrap();
    let mut kubelet = FakeKubelet::start(dir.path());
    let text = VFS.replace(
        "}]}",
        r#"}],"configList":[{"resourceName":"s","rdmaHcaMax":2,"devices":["ibs1"]},
            {"resourceName":"none","rdmaHcaMax":2,"devices":["ib9"]}]}"#,
    );
    let mut pools = parse_config(&text);
    pools.pools.push(jarvice_pool());
    let _fixture = start_with_pools(dir.path(), Arc::new(node(2)), pools);
    let mut registered_resources = Vec::new();
    for _ in 0..4 {
        let (request, mut plugin) = kubelet.next_registration().await;
        let mut list = plugin.list_and_watch(Empty {}).await.unwrap().into_inner();
        let devices = list.message().await.unwrap().unwrap().devices;
        let numa = devices.first().and_then(|device| device.topology.clone()).map(|at| at.nodes[0].id);
        registered_resources.push((request.resource_name, devices.len(), numa));
    }
    registered_resources.sort();
    let expected = [
        ("jarvice.com/rdma", 1, None),
        ("openshift.io/ib_vfs", 2, Some(0)),
        ("rdma/none", 0, None),
        ("rdma/s", 2, None),
    ];
    assert_eq!(registered_resources, expected.map(|(name, count, numa)| (name.to_owned(), count, numa)));
}

// Case: operator C89
#[tokio::test]
async fn added_functions_become_devices_and_recreated_ones_keep_their_ids() {
    let dir = tempfile::tempdir().unwrap();
    let mut kubelet = FakeKubelet::start(dir.path());
    let fixture = start_with_pools(dir.path(), Arc::new(node(2)), parse_config(VFS));
    let (_, mut plugin) = kubelet.next_registration().await;
    let mut list = plugin.list_and_watch(Empty {}).await.unwrap().into_inner();
    assert_eq!(next_healthy(&mut list).await, [vf_address(0), vf_address(1)]);
    // The kernel removes all virtual functions before it creates others. Meanwhile, the removed ones must be
    // unhealthy.
    fixture.inventory.send_replace(Arc::new(node(0)));
    let unhealthy = |index| (vf_address(index), "Unhealthy".to_owned());
    assert_eq!(next_list(&mut list).await, [unhealthy(0), unhealthy(1)]);
    fixture.inventory.send_replace(Arc::new(node(4)));
    assert_eq!(next_healthy(&mut list).await, [vf_address(0), vf_address(1), vf_address(2), vf_address(3)]);
    assert!(kubelet.registrations.try_recv().is_err(), "registered once");
}

// Case: operator C90
#[test]
fn port_is_reported_down_only_if_it_stays_down() {
    let mut health = PortHealth::default();
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let with = |state: &str| {
        let mut inventory = node(2);
        inventory.devices[0].ports[0].state = state.to_owned();
        inventory
    };
    let mut update = |state: &str, seconds| {
        health.update(&with(state), at(seconds));
        (health.is_up(A), health.next_deadline())
    };
    assert_eq!(update("Active", 0), (true, None));
    assert_eq!(update("Down", 1), (true, Some(at(6))));
    assert_eq!(update("Active", 4), (true, None), "the port flapped");
    assert_eq!(update("Down", 10), (true, Some(at(15))));
    assert_eq!(update("Down", 15), (false, None));
    assert_eq!(update("Active", 20), (false, Some(at(30))));
    assert_eq!(update("Down", 25), (false, None));
    assert_eq!(update("Active", 26), (false, Some(at(36))));
    assert_eq!(update("Active", 36), (true, None));
}

#[tokio::test]
async fn held_device_stays_listed_when_the_configuration_changes() {
    let dir = tempfile::tempdir().unwrap();
    let mut kubelet = FakeKubelet::start(dir.path());
    let fixture = start_with_pools(dir.path(), Arc::new(node(2)), parse_config(VFS));
    let (_, mut plugin) = kubelet.next_registration().await;
    let mut list = plugin.list_and_watch(Empty {}).await.unwrap().into_inner();
    assert_eq!(next_healthy(&mut list).await.len(), 2);
    let checkpoint = format!(
        r#"{{"Data":{{"PodDeviceEntries":[{{"PodUID":"u","ResourceName":"openshift.io/ib_vfs","DeviceIDs":{{"0":["{}"]}}}}]}}}}"#,
        vf_address(0)
    );
    fs::write(dir.path().join("device-plugins/kubelet_internal_checkpoint"), checkpoint).unwrap();
    // All functions move to another pool. The one that a pod holds must stay in the old pool as unhealthy.
    fixture.configured.send_replace(Arc::new(parse_config(&VFS.replace("ib_vfs", "other"))));
    let listed = next_list(&mut list).await;
    assert!(listed.contains(&(vf_address(0), "Unhealthy".to_owned())), "{listed:?}");
    plugin.allocate(allocate_request(&[&vf_address(0)])).await.expect_err("must not be allocated again");
    let (request, mut other) = kubelet.next_registration().await;
    assert_eq!(request.resource_name, "openshift.io/other");
    let mut list = other.list_and_watch(Empty {}).await.unwrap().into_inner();
    assert_eq!(next_healthy(&mut list).await, [vf_address(1)], "the other function is held");
    other
        .allocate(allocate_request(&[&vf_address(0)]))
        .await
        .expect_err("must not be allocated to another pool");
}

#[tokio::test]
async fn plugin_watcher_finds_the_socket_again_after_a_rejection() {
    let dir = tempfile::tempdir().unwrap();
    let registry = dir.path().join("plugins_registry");
    fs::create_dir_all(&registry).unwrap();
    let mut fixture = start_jarvice(dir.path(), inventory(&["uverbs0"]));
    let socket = registry.join("ferroband-jarvice.com-rdma.sock");
    for accepted in [false, true] {
        let channel = timeout(Duration::from_secs(5), async {
            loop {
                let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display())).unwrap();
                match endpoint.connect().await {
                    Ok(channel) => break channel,
                    Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
        });
        let channel = channel.await.expect("a socket in time");
        let mut client = RegistrationClient::new(channel.clone());
        let info = client.get_info(InfoRequest {}).await.unwrap().into_inner();
        assert_eq!((info.r#type.as_str(), info.name.as_str()), ("DevicePlugin", "jarvice.com/rdma"));
        assert_eq!(
            (info.endpoint, info.supported_versions),
            (socket.display().to_string(), vec!["v1beta1".to_owned()])
        );
        let mut plugin = DevicePluginClient::new(channel);
        let mut list = plugin.list_and_watch(Empty {}).await.unwrap().into_inner();
        assert_eq!(next_healthy(&mut list).await, ["rdma-0"]);
        let status = RegistrationStatus { plugin_registered: accepted, error: "on purpose".to_owned() };
        client.notify_registration_status(status).await.unwrap();
        if !accepted {
            // After the rejection, the plugin stops the server, which ends the stream.
            assert!(
                timeout(Duration::from_secs(5), list.message())
                    .await
                    .expect("stream end in time")
                    .ok()
                    .flatten()
                    .is_none()
            );
        }
    }
    timeout(Duration::from_secs(5), fixture.registered.wait_for(|registered| *registered))
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn preferred_allocation_has_the_requested_number_of_devices() {
    let dir = tempfile::tempdir().unwrap();
    let mut kubelet = FakeKubelet::start(dir.path());
    let _fixture = start_with_pools(dir.path(), Arc::new(node(4)), parse_config(VFS));
    let (request, mut plugin) = kubelet.next_registration().await;
    assert!(request.options.unwrap().get_preferred_allocation_available);
    let container_request = ContainerPreferredAllocationRequest {
        available_device_i_ds: (0..4).map(vf_address).collect(),
        must_include_device_i_ds: vec![vf_address(3)],
        allocation_size: 2,
    };
    let request = PreferredAllocationRequest { container_requests: vec![container_request] };
    let response = plugin.get_preferred_allocation(request).await.unwrap().into_inner();
    assert_eq!(response.container_responses[0].device_i_ds, [vf_address(3), vf_address(0)]);
}
