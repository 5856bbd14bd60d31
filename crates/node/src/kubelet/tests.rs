use super::{
    PodDevices, PodResourcesClient, checkpoint,
    wire::{
        ContainerDevices, ContainerResources, GetPodResourcesRequest, GetPodResourcesResponse,
        ListPodResourcesRequest, ListPodResourcesResponse, PodResources,
        pod_resources_lister_server::{PodResourcesLister, PodResourcesListerServer},
    },
};
use crate::Error;
use ferroband_kernel::Root;
use ferroband_model::PodRef;
use serde_json::json;
use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
};
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status, transport::Server};

/// A kubelet with two pods. It supports the Get method only if `get` is set, and refuses the first `refused` queries
/// because of its limit of queries per second.
#[derive(Default)]
struct FakePodResourcesLister {
    get: bool,
    refused: AtomicUsize,
}

impl FakePodResourcesLister {
    fn check_limit(&self) -> Result<(), Status> {
        let left =
            self.refused.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        match left {
            Ok(_) => Err(Status::resource_exhausted("rejected by rate limit")),
            Err(_) => Ok(()),
        }
    }
}

fn pod(name: &str) -> PodRef {
    PodRef { namespace: "default".into(), name: name.into(), uid: format!("uid-{name}") }
}

fn resources(name: &str) -> PodResources {
    let devices = |resource: &str, ids: &[&str]| ContainerDevices {
        resource_name: resource.into(),
        device_ids: ids.iter().map(|id| (*id).to_owned()).collect(),
    };
    let container = |devices| ContainerResources { name: "c".into(), devices };
    let first = container(vec![devices("x/vf", &["d9", "d1"]), devices("x/other", &["o1"])]);
    let second = container(vec![devices("x/vf", &["d5"]), devices("x/vf", &["d4"])]);
    PodResources { name: name.into(), namespace: "default".into(), containers: vec![first, second] }
}

#[tonic::async_trait]
impl PodResourcesLister for FakePodResourcesLister {
    async fn list(
        &self,
        _: Request<ListPodResourcesRequest>,
    ) -> Result<Response<ListPodResourcesResponse>, Status> {
        self.check_limit()?;
        let other = PodResources { name: "a".into(), namespace: "other".into(), containers: Vec::new() };
        Ok(Response::new(ListPodResourcesResponse { pod_resources: vec![other, resources("a")] }))
    }

    async fn get(
        &self,
        request: Request<GetPodResourcesRequest>,
    ) -> Result<Response<GetPodResourcesResponse>, Status> {
        self.check_limit()?;
        let request = request.into_inner();
        match self.get && request.pod_name == "a" && request.pod_namespace == "default" {
            true => Ok(Response::new(GetPodResourcesResponse { pod_resources: Some(resources("a")) })),
            false => Err(Status::unknown("PodResources API Get method disabled")),
        }
    }
}

fn start_kubelet(root: &Path, lister: FakePodResourcesLister) {
    let folder = root.join("var/lib/kubelet/pod-resources");
    fs::create_dir_all(&folder).unwrap();
    let listener = UnixListener::bind(folder.join("kubelet.sock")).unwrap();
    let server = Server::builder().add_service(PodResourcesListerServer::new(lister));
    tokio::spawn(server.serve_with_incoming(UnixListenerStream::new(listener)));
}

fn take_all(mut devices: PodDevices, resource: &str) -> Vec<String> {
    std::iter::from_fn(|| devices.take_next(resource)).collect()
}

// Case: cni 87
#[tokio::test]
async fn devices_keep_the_kubelets_order_with_get_and_list() {
    for get in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        start_kubelet(folder.path(), FakePodResourcesLister { get, ..Default::default() });
        let kubelet = PodResourcesClient::new(&Root::at(folder.path()));
        let devices = kubelet.pod_devices(&pod("a")).await.unwrap();
        assert_eq!(take_all(devices.clone(), "x/vf"), ["d9", "d1", "d5", "d4"], "get {get}");
        assert_eq!(
            (take_all(devices.clone(), "x/other"), take_all(devices, "y")),
            (vec!["o1".to_owned()], vec![])
        );
        assert_eq!(kubelet.pod_devices(&pod("unknown")).await.unwrap(), PodDevices::default());
    }
}

#[tokio::test]
async fn a_query_waits_while_the_kubelet_is_at_its_limit_of_queries_per_second() {
    for get in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        start_kubelet(folder.path(), FakePodResourcesLister { get, refused: AtomicUsize::new(3) });
        let kubelet = PodResourcesClient::new(&Root::at(folder.path()));
        let devices = kubelet.pod_devices(&pod("a")).await.unwrap();
        assert_eq!(take_all(devices, "x/other"), ["o1"], "get {get}");
    }
}

// Case: cni 91
#[tokio::test]
async fn checkpoint_is_used_without_the_socket_and_missing_both_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let kubelet = PodResourcesClient::new(&Root::at(folder.path()));
    let error = kubelet.pod_devices(&pod("a")).await.unwrap_err();
    assert!(matches!(error, Error::NoKubelet { .. }), "{error:?}");
    let plugins = folder.path().join("var/lib/kubelet/device-plugins");
    fs::create_dir_all(&plugins).unwrap();
    let text = json!({"Data": {"PodDeviceEntries": [
        {"PodUID": "uid-b", "ContainerName": "c", "ResourceName": "x/vf", "DeviceIDs": {"0": ["no"]}},
        {"PodUID": "uid-a", "ContainerName": "c", "ResourceName": "x/vf", "DeviceIDs": {"0": ["d2", "d1"], "1": ["d0"]}},
        {"PodUID": "uid-a", "ContainerName": "d", "ResourceName": "x/vf", "DeviceIDs": ["d7"]},
    ], "RegisteredDevices": {}}, "Checksum": 1});
    fs::write(plugins.join("kubelet_internal_checkpoint"), text.to_string()).unwrap();
    assert_eq!(take_all(kubelet.pod_devices(&pod("a")).await.unwrap(), "x/vf"), ["d2", "d1", "d0", "d7"]);
    fs::write(plugins.join("kubelet_internal_checkpoint"), "{").unwrap();
    assert!(matches!(kubelet.pod_devices(&pod("a")).await.unwrap_err(), Error::File { .. }));

    // A socket without a listener means that the kubelet is restarting, so the error must have the CNI code
    // for "try again later".
    fs::create_dir_all(folder.path().join("var/lib/kubelet/pod-resources")).unwrap();
    fs::write(folder.path().join("var/lib/kubelet/pod-resources/kubelet.sock"), "").unwrap();
    let error = kubelet.pod_devices(&pod("a")).await.unwrap_err();
    assert!(matches!(error, Error::Kubelet { .. }), "{error:?}");
    assert_eq!(error.fault().code.cni_code(), 11, "CNI code 11: try again later");
}

#[test]
fn empty_checkpoint_has_no_devices() {
    let devices = checkpoint::parse_pod_devices(br#"{"Data":{"PodDeviceEntries":null}}"#, "u").unwrap();
    assert_eq!(devices, PodDevices::default());
}

#[test]
fn checkpoint_entries_are_parsed() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(checkpoint::read_checkpoint(dir.path()), None);
    let text = r#"{"Data":{"PodDeviceEntries":[
        {"PodUID":"u1","ContainerName":"c","ResourceName":"a.b/vf","DeviceIDs":{"0":["0000:3b:00.2"],"-1":["x"]},"AllocResp":""},
        {"PodUID":"u2","ContainerName":"c","ResourceName":"jarvice.com/rdma","DeviceIDs":null},
        {"PodUID":"u3","ContainerName":"c","ResourceName":"a.b/vf","DeviceIDs":["flat"]}],
        "RegisteredDevices":{}},"Checksum":1}"#;
    fs::write(checkpoint::path(dir.path()), text).unwrap();
    let held = checkpoint::read_checkpoint(dir.path()).unwrap();
    let key = |id: &str| ("a.b/vf".to_owned(), id.to_owned());
    assert_eq!(
        held.into_iter().collect::<Vec<_>>(),
        [("0000:3b:00.2", "u1"), ("flat", "u3"), ("x", "u1")].map(|(id, pod)| (key(id), pod.to_owned()))
    );
}
