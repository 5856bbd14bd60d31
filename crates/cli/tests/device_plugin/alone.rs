//! Runs `ferroband device-plugin` without capabilities and without a network. An empty file replaces the
//! device file of the RDMA device.

use super::{KillOnDrop, wait_until};
use ferroband_node::advertise::wire::{
    AllocateRequest, ContainerAllocateRequest, Empty, RegisterRequest,
    device_plugin_client::DevicePluginClient,
    registration_server::{Registration, RegistrationServer},
};
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};
use tokio::{net::UnixListener, sync::mpsc, time::timeout};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{
    Request, Response, Status,
    transport::{Endpoint, Server},
};

struct FakeKubeletRegistrar(mpsc::UnboundedSender<RegisterRequest>);

#[tonic::async_trait]
impl Registration for FakeKubeletRegistrar {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<Empty>, Status> {
        self.0.send(request.into_inner()).map_err(|_| Status::unavailable("the test has ended"))?;
        Ok(Response::new(Empty {}))
    }
}

/// Starts the device plugin in a network namespace without interfaces, and without capabilities.
fn spawn_confined(folder: &Path) -> KillOnDrop {
    let mut command = Command::new("unshare");
    command
        .args(["--net", "setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"])
        .arg(env!("CARGO_BIN_EXE_ferroband"))
        .args(["device-plugin", "--root"])
        .arg(folder.join("root"))
        .arg("--device-dir")
        .arg(folder.join("infiniband"))
        .arg("--kubelet-dir")
        .arg(folder.join("kubelet"))
        .env_remove("KUBECONFIG")
        .env_remove("NODE_NAME")
        .stdout(Stdio::null())
        .stderr(fs::File::create(folder.join("log")).unwrap());
    KillOnDrop(command.spawn().unwrap())
}

#[test]
fn device_plugin_runs_without_capabilities_and_network() {
    let folder = tempfile::tempdir().unwrap();
    let plugins = folder.path().join("kubelet/device-plugins");
    for path in [plugins.clone(), folder.path().join("infiniband"), folder.path().join("root")] {
        fs::create_dir_all(path).unwrap();
    }
    fs::write(folder.path().join("infiniband/uverbs0"), "").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = UnixListener::bind(plugins.join("kubelet.sock")).unwrap();
        let (sender, mut registrations) = mpsc::unbounded_channel();
        let service = RegistrationServer::new(FakeKubeletRegistrar(sender));
        let incoming = UnixListenerStream::new(listener);
        let kubelet = tokio::spawn(Server::builder().add_service(service).serve_with_incoming(incoming));

        let plugin = spawn_confined(folder.path());
        let registered = timeout(Duration::from_secs(10), registrations.recv()).await;
        let log = || fs::read_to_string(folder.path().join("log")).unwrap();
        let request = registered.unwrap_or_else(|_| panic!("not registered\n{}", log())).unwrap();
        assert_eq!(request.resource_name, "jarvice.com/rdma");
        let status = fs::read_to_string(format!("/proc/{}/status", plugin.0.id())).unwrap();
        let capabilities = status.lines().find(|line| line.starts_with("CapEff:")).unwrap();
        assert_eq!(capabilities.split_whitespace().nth(1), Some("0000000000000000"));

        let socket = format!("unix://{}", plugins.join(&request.endpoint).display());
        let channel = Endpoint::from_shared(socket).unwrap().connect().await.unwrap();
        let mut client = DevicePluginClient::new(channel);
        let mut list = client.list_and_watch(Empty {}).await.unwrap().into_inner();
        let devices = list.message().await.unwrap().unwrap().devices;
        assert_eq!((devices.len(), devices[0].health.as_str()), (1, "Healthy"));
        let container = ContainerAllocateRequest { devices_ids: vec![devices[0].id.clone()] };
        let request_body = AllocateRequest { container_requests: vec![container] };
        let responses = client.allocate(request_body).await.unwrap().into_inner().container_responses;
        let file = &responses[0].devices[0];
        assert_eq!(
            (responses[0].devices.len(), file.container_path.as_str()),
            (1, "/dev/infiniband/uverbs0")
        );
        assert_eq!(file.host_path, folder.path().join("infiniband/uverbs0").display().to_string());

        // The device must become unhealthy when its file is removed, and healthy when it is created again.
        fs::remove_file(folder.path().join("infiniband/uverbs0")).unwrap();
        let none = timeout(Duration::from_secs(1), list.message()).await.expect("within a second");
        assert!(none.unwrap().unwrap().devices.iter().all(|device| device.health == "Unhealthy"));
        fs::write(folder.path().join("infiniband/uverbs0"), "").unwrap();
        let back = timeout(Duration::from_secs(1), list.message()).await.expect("within a second");
        assert_eq!(back.unwrap().unwrap().devices[0].health, "Healthy");

        // The device plugin must exit with status 0 on SIGTERM.
        let pid = nix::unistd::Pid::from_raw(plugin.0.id().try_into().unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        let mut plugin = plugin;
        wait_until("the exit of the plugin", || plugin.0.try_wait().unwrap().is_some());
        assert!(plugin.0.wait().unwrap().success(), "{}", log());
        kubelet.abort();
    });
}
