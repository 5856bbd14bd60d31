//! The gRPC server of one resource, from binding its socket until the kubelet restarts.

use super::{
    h2_authority::AuthorityRewriter,
    registration::RETRY_PAUSE,
    registry::{
        InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
        registration_server::{Registration, RegistrationServer},
    },
    resource_plugin::{ResourcePlugin, plugin_options},
    wire::{
        RegisterRequest, device_plugin_server::DevicePluginServer, registration_client::RegistrationClient,
    },
};
use crate::{Error, dir_watch::WatchedDir, error::error_chain, kubelet};
use ferroband_kernel::files::remove_file;
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{net::UnixListener, sync::watch, task::JoinHandle, time::timeout};
use tokio_stream::{StreamExt, wrappers::UnixListenerStream};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, transport::Server};
use tracing::{info, warn};

const REGISTER_TIMEOUT: Duration = Duration::from_secs(5);

/// Device, inode and change time of a socket file. A recreated socket differs even if its inode number is reused.
type SocketIdentity = (u64, u64, i64, i64);

/// File name of the plugin's socket, for example `ferroband-jarvice.com-rdma.sock`.
pub(super) fn socket_name(resource: &str) -> String {
    format!("ferroband-{}.sock", resource.replace('/', "-"))
}

/// The running gRPC server of one resource.
pub(super) struct PluginServer {
    resource: String,
    socket: PathBuf,
    kubelet_socket: PathBuf,
    stop: CancellationToken,
    /// Whether the plugin watcher accepted the registration; `None` until it reports a status.
    watcher_status: watch::Receiver<Option<bool>>,
    server: JoinHandle<Result<(), tonic::transport::Error>>,
}

impl PluginServer {
    /// Starts a server on a socket in `dir`. An existing socket of the resource is replaced.
    pub(super) fn start(dir: &Path, plugin: &ResourcePlugin) -> Result<Self, Error> {
        let resource = plugin.resource.clone();
        let socket = dir.join(socket_name(&resource));
        remove_file(&socket).map_err(Error::file("remove", &socket))?;
        let listener = UnixListener::bind(&socket)
            .map_err(|e| Error::Serve { path: socket.clone(), source: Box::new(e) })?;
        let stop = CancellationToken::new();
        let (status, watcher_status) = watch::channel(None);
        let registration = WatcherRegistration { resource: resource.clone(), socket: socket.clone(), status };
        let ended = stop.clone();
        let calls = UnixListenerStream::new(listener).map(|call| call.map(AuthorityRewriter::new));
        let server = tokio::spawn(
            Server::builder()
                .add_service(DevicePluginServer::new(ResourcePlugin { stop: stop.clone(), ..plugin.clone() }))
                .add_service(RegistrationServer::new(registration))
                .serve_with_incoming_shutdown(calls, async move {
                    ended.cancelled().await;
                }),
        );
        Ok(Self { resource, socket, kubelet_socket: dir.join("kubelet.sock"), stop, watcher_status, server })
    }

    /// Registers at the kubelet, and returns when the kubelet has restarted or the plugin's socket is gone.
    pub(super) async fn register_and_wait(
        &self,
        dir: &mut WatchedDir,
        registered: &watch::Sender<bool>,
    ) -> Result<(), Error> {
        let kubelet_identity = loop {
            match (socket_identity(&self.kubelet_socket), socket_identity(&self.socket)) {
                (_, None) => return Ok(()),
                (Some(kubelet_identity), _) => break kubelet_identity,
                (None, _) => {
                    if !dir.changed().await {
                        return Ok(());
                    }
                }
            }
        };
        self.register().await?;
        registered.send_replace(true);
        info!(resource = self.resource, "registered with the kubelet");
        while socket_identity(&self.kubelet_socket) == Some(kubelet_identity)
            && socket_identity(&self.socket).is_some()
        {
            if !dir.changed().await {
                break;
            }
        }
        info!(resource = self.resource, "kubelet restarted, registering again");
        Ok(())
    }

    /// Waits for the plugin watcher to find the socket. Returns when the socket is gone or the kubelet has
    /// rejected the registration.
    pub(super) async fn wait_for_watcher(
        &self,
        dir: &mut WatchedDir,
        registered: &watch::Sender<bool>,
    ) -> Result<(), Error> {
        let mut watcher_status = self.watcher_status.clone();
        while socket_identity(&self.socket).is_some() {
            let accepted = *watcher_status.borrow_and_update();
            match accepted {
                Some(true) => {
                    registered.send_replace(true);
                }
                // `WatcherRegistration` has logged the reason. After a pause, the caller creates a new
                // socket, so that the watcher tries again.
                Some(false) => {
                    tokio::time::sleep(RETRY_PAUSE).await;
                    break;
                }
                None => {}
            }
            tokio::select! {
                changed = dir.changed() => if !changed { break },
                changed = watcher_status.changed() => if changed.is_err() { break },
            }
        }
        Ok(())
    }

    async fn register(&self) -> Result<(), Error> {
        let register_error = |source| Error::Register {
            path: self.kubelet_socket.clone(),
            resource: self.resource.clone(),
            source: Box::new(source),
        };
        let connect_error = |e: tonic::transport::Error| Error::Serve {
            path: self.kubelet_socket.clone(),
            source: Box::new(e),
        };
        let channel =
            kubelet::connect(&self.kubelet_socket, REGISTER_TIMEOUT).await.map_err(connect_error)?;
        let request = RegisterRequest {
            version: "v1beta1".to_owned(),
            endpoint: socket_name(&self.resource),
            resource_name: self.resource.clone(),
            options: Some(plugin_options()),
        };
        RegistrationClient::new(channel).register(request).await.map_err(register_error)?;
        Ok(())
    }

    pub(super) async fn shut_down(self) {
        self.stop.cancel();
        // Cancelling `stop` ends all ListAndWatch streams. A client that keeps its connection open must not
        // block the shutdown.
        let mut server = self.server;
        match timeout(RETRY_PAUSE, &mut server).await {
            Ok(Ok(Err(e))) => {
                warn!(socket = %self.socket.display(), error = %error_chain(&e), "device plugin server failed");
            }
            Ok(_) => {}
            Err(_) => server.abort(),
        }
    }
}

/// The service that the kubelet's plugin watcher calls on the plugin's socket.
struct WatcherRegistration {
    resource: String,
    socket: PathBuf,
    status: watch::Sender<Option<bool>>,
}

#[tonic::async_trait]
impl Registration for WatcherRegistration {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        Ok(Response::new(PluginInfo {
            r#type: "DevicePlugin".to_owned(),
            name: self.resource.clone(),
            endpoint: self.socket.display().to_string(),
            supported_versions: vec!["v1beta1".to_owned()],
        }))
    }

    async fn notify_registration_status(
        &self,
        status: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let RegistrationStatus { plugin_registered, error } = status.into_inner();
        if plugin_registered {
            info!(resource = self.resource, "registered by the kubelet's plugin watcher");
        } else {
            warn!(resource = self.resource, error, "the kubelet's plugin watcher rejected the registration");
        }
        self.status.send_replace(Some(plugin_registered));
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}

fn socket_identity(path: &Path) -> Option<SocketIdentity> {
    let metadata = fs::symlink_metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec()))
}
