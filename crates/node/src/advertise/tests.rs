use super::{
    Resource, keep_registered,
    wire::{
        AllocateRequest, ContainerAllocateRequest, DeviceSpec, Empty, ListAndWatchResponse, RegisterRequest,
        device_plugin_client::DevicePluginClient,
        registration_server::{Registration, RegistrationServer},
    },
};
use crate::discover::{Inventory, RdmaDevice};
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

/// A kubelet's registration service.
struct Kubelet {
    folder: PathBuf,
    registrations: mpsc::UnboundedReceiver<RegisterRequest>,
    server: JoinHandle<()>,
}

struct Registrar(mpsc::UnboundedSender<RegisterRequest>);

#[tonic::async_trait]
impl Registration for Registrar {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<Empty>, Status> {
        self.0.send(request.into_inner()).map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(Empty {}))
    }
}

impl Kubelet {
    /// Like the real one, it empties the folder of sockets before it serves its own.
    fn start(folder: &Path) -> Self {
        fs::create_dir_all(folder).unwrap();
        for entry in fs::read_dir(folder).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        let listener = UnixListener::bind(folder.join("kubelet.sock")).unwrap();
        let (sender, registrations) = mpsc::unbounded_channel();
        let server = tokio::spawn(async move {
            let service = RegistrationServer::new(Registrar(sender));
            let incoming = UnixListenerStream::new(listener);
            Server::builder().add_service(service).serve_with_incoming(incoming).await.unwrap();
        });
        Self { folder: folder.to_owned(), registrations, server }
    }

    async fn registered(&mut self) -> (RegisterRequest, DevicePluginClient<Channel>) {
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
    let device =
        |file: &&str| RdmaDevice::named("mlx5_0", Some(PathBuf::from(format!("/x/dev/infiniband/{file}"))));
    Arc::new(Inventory {
        devices: uverbs.iter().map(device).collect(),
        rdma_cm: Some(PathBuf::from("/x/dev/infiniband/rdma_cm")),
        ..Default::default()
    })
}

async fn next(list: &mut Streaming<ListAndWatchResponse>) -> Vec<(String, String)> {
    let message = timeout(Duration::from_secs(5), list.message()).await.expect("a list in time");
    message.unwrap().unwrap().devices.into_iter().map(|device| (device.id, device.health)).collect()
}

/// The plugin under test; it ends with the guard.
struct Offering {
    inventory: watch::Sender<Arc<Inventory>>,
    registered: watch::Receiver<bool>,
    _stop: tokio_util::sync::DropGuard,
}

fn offer(folder: &Path, first: Arc<Inventory>) -> Offering {
    let (inventory, seen) = watch::channel(first);
    let (told, registered) = watch::channel(false);
    let stop = CancellationToken::new();
    tokio::spawn(keep_registered(folder.to_owned(), Resource::jarvice(), seen, told, stop.clone()));
    Offering { inventory, registered, _stop: stop.drop_guard() }
}

#[tokio::test]
async fn c101_one_unit_with_a_stable_id_and_each_device_file_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut kubelet = Kubelet::start(dir.path());
    let _offering = offer(dir.path(), inventory(&["uverbs0", "uverbs1"]));
    let (request, mut plugin) = kubelet.registered().await;
    assert_eq!((request.version.as_str(), request.resource_name.as_str()), ("v1beta1", "jarvice.com/rdma"));
    assert!(!request.endpoint.contains('/'), "{}", request.endpoint);

    let mut list = plugin.list_and_watch(Empty {}).await.unwrap().into_inner();
    assert_eq!(next(&mut list).await, [("rdma-0".to_owned(), "Healthy".to_owned())]);

    let container = ContainerAllocateRequest { devices_ids: vec!["rdma-0".to_owned()] };
    let request = AllocateRequest { container_requests: vec![container.clone(), container] };
    let answer = plugin.allocate(request).await.unwrap().into_inner().container_responses;
    let file = |name: &str| DeviceSpec {
        container_path: format!("/dev/infiniband/{name}"),
        host_path: format!("/x/dev/infiniband/{name}"),
        permissions: "rw".to_owned(),
    };
    assert_eq!(answer.len(), 2);
    for container in answer {
        assert_eq!(container.devices, [file("uverbs0"), file("uverbs1"), file("rdma_cm")]);
        assert!(container.envs.is_empty() && container.mounts.is_empty());
    }
}

#[tokio::test]
async fn an_unknown_id_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut kubelet = Kubelet::start(dir.path());
    let _offering = offer(dir.path(), inventory(&["uverbs0"]));
    let (_, mut plugin) = kubelet.registered().await;
    let container = ContainerAllocateRequest { devices_ids: vec!["rdma-7".to_owned()] };
    let refused = plugin.allocate(AllocateRequest { container_requests: vec![container] }).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::NotFound);
    assert!(refused.message().contains("rdma-7"), "{refused}");
}

#[tokio::test]
async fn c103_nothing_is_offered_before_there_is_a_device_and_the_list_follows() {
    let dir = tempfile::tempdir().unwrap();
    let mut kubelet = Kubelet::start(dir.path());
    let offering = offer(dir.path(), Arc::default());
    assert!(timeout(Duration::from_millis(300), kubelet.registrations.recv()).await.is_err());

    offering.inventory.send_replace(inventory(&["uverbs0"]));
    let (_, mut plugin) = kubelet.registered().await;
    let mut list = plugin.list_and_watch(Empty {}).await.unwrap().into_inner();
    assert_eq!(next(&mut list).await.len(), 1);

    // Another device changes nothing for the kubelet; no device does.
    offering.inventory.send_replace(inventory(&["uverbs0", "uverbs1"]));
    offering.inventory.send_replace(Arc::default());
    assert!(next(&mut list).await.is_empty());

    let without_file = Inventory { devices: vec![RdmaDevice::named("mlx5_0", None)], ..Default::default() };
    offering.inventory.send_replace(Arc::new(without_file));
    assert_eq!(next(&mut list).await, [("rdma-0".to_owned(), "Unhealthy".to_owned())]);
}

#[tokio::test]
async fn a_new_kubelet_is_told_within_a_second() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("device-plugins");
    let mut offering = offer(&folder, inventory(&["uverbs0"]));
    let mut kubelet = Kubelet::start(&folder);
    kubelet.registered().await;
    offering.registered.wait_for(|yes| *yes).await.unwrap();

    for _ in 0..3 {
        kubelet.stop();
        kubelet = Kubelet::start(&folder);
        let back = Instant::now();
        let (_, mut plugin) = kubelet.registered().await;
        assert!(back.elapsed() < Duration::from_secs(1), "{:?}", back.elapsed());
        let mut list = plugin.list_and_watch(Empty {}).await.unwrap().into_inner();
        assert_eq!(next(&mut list).await, [("rdma-0".to_owned(), "Healthy".to_owned())]);
    }
}
