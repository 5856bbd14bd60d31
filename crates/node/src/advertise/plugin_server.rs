//! One life of the socket of a resource.

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
use crate::{Error, dir_watch::WatchedDir, error::error_chain};
use std::{
    fs,
    io::ErrorKind,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{net::UnixListener, sync::watch, task::JoinHandle, time::timeout};
use tokio_stream::{StreamExt, wrappers::UnixListenerStream};
use tokio_util::sync::CancellationToken;
use tonic::{
    Request, Response, Status,
    transport::{Endpoint, Server},
};
use tracing::{info, warn};

/// How long one registration may take.
const REGISTER_TIMEOUT: Duration = Duration::from_secs(5);

/// Which file a path names: a socket made anew has another identity even if the inode number is reused.
type SocketIdentity = (u64, u64, i64, i64);

/// The name of the socket of `resource`.
pub(super) fn socket_name(resource: &str) -> String {
    format!("ferroband-{}.sock", resource.replace('/', "-"))
}

/// One life of our socket.
pub(super) struct PluginServer {
    resource: String,
    socket: PathBuf,
    kubelet_socket: PathBuf,
    stop: CancellationToken,
    /// What the plugin watcher said last.
    watcher_status: watch::Receiver<Option<bool>>,
    server: JoinHandle<Result<(), tonic::transport::Error>>,
}

impl PluginServer {
    /// Serve on a new socket in `folder`.
    pub(super) fn start(folder: &Path, plugin: &ResourcePlugin) -> Result<Self, Error> {
        let resource = plugin.resource.clone();
        let socket = folder.join(socket_name(&resource));
        match fs::remove_file(&socket) {
            Err(source) if source.kind() != ErrorKind::NotFound => {
                return Err(Error::File { action: "remove", path: socket, source });
            }
            _ => {}
        }
        let listener = UnixListener::bind(&socket)
            .map_err(|e| Error::Serve { path: socket.clone(), source: Box::new(e) })?;
        let stop = CancellationToken::new();
        let (tell, told) = watch::channel(None);
        let known = WatcherRegistration { resource: resource.clone(), socket: socket.clone(), status: tell };
        let ended = stop.clone();
        let calls = UnixListenerStream::new(listener).map(|call| call.map(AuthorityRewriter::new));
        let server = tokio::spawn(
            Server::builder()
                .add_service(DevicePluginServer::new(ResourcePlugin { stop: stop.clone(), ..plugin.clone() }))
                .add_service(RegistrationServer::new(known))
                .serve_with_incoming_shutdown(calls, async move {
                    ended.cancelled().await;
                }),
        );
        Ok(Self {
            resource,
            socket,
            kubelet_socket: folder.join("kubelet.sock"),
            stop,
            watcher_status: told,
            server,
        })
    }

    /// Registers, and returns when the kubelet no longer knows this socket.
    pub(super) async fn register_and_wait(
        &self,
        folder: &mut WatchedDir,
        registered: &watch::Sender<bool>,
    ) -> Result<(), Error> {
        let at = loop {
            match (socket_identity(&self.kubelet_socket), socket_identity(&self.socket)) {
                (_, None) => return Ok(()),
                (Some(at), _) => break at,
                (None, _) => {
                    if !folder.changed().await {
                        return Ok(());
                    }
                }
            }
        };
        self.register().await?;
        registered.send_replace(true);
        info!(resource = self.resource, "registered at the kubelet");
        while socket_identity(&self.kubelet_socket) == Some(at) && socket_identity(&self.socket).is_some() {
            if !folder.changed().await {
                break;
            }
        }
        info!(resource = self.resource, "the kubelet has gone or is new");
        Ok(())
    }

    /// Waits to be found by the plugin watcher, and returns when the socket is gone or the kubelet did not want it.
    pub(super) async fn wait_for_watcher(
        &self,
        folder: &mut WatchedDir,
        registered: &watch::Sender<bool>,
    ) -> Result<(), Error> {
        let mut told = self.watcher_status.clone();
        while socket_identity(&self.socket).is_some() {
            let said = *told.borrow_and_update();
            match said {
                Some(true) => {
                    registered.send_replace(true);
                }
                // It was said why; a new socket is looked at anew.
                Some(false) => {
                    tokio::time::sleep(RETRY_PAUSE).await;
                    break;
                }
                None => {}
            }
            tokio::select! {
                changed = folder.changed() => if !changed { break },
                changed = told.changed() => if changed.is_err() { break },
            }
        }
        Ok(())
    }

    async fn register(&self) -> Result<(), Error> {
        let refused = |source| Error::Register {
            path: self.kubelet_socket.clone(),
            resource: self.resource.clone(),
            source: Box::new(source),
        };
        let unreachable = |e: tonic::transport::Error| Error::Serve {
            path: self.kubelet_socket.clone(),
            source: Box::new(e),
        };
        let kubelet = Endpoint::from_shared(format!("unix://{}", self.kubelet_socket.display()))
            .map_err(unreachable)?
            .connect_timeout(REGISTER_TIMEOUT)
            .timeout(REGISTER_TIMEOUT);
        let channel = kubelet.connect().await.map_err(unreachable)?;
        let request = RegisterRequest {
            version: "v1beta1".to_owned(),
            endpoint: socket_name(&self.resource),
            resource_name: self.resource.clone(),
            options: Some(plugin_options()),
        };
        RegistrationClient::new(channel).register(request).await.map_err(refused)?;
        Ok(())
    }

    /// End it.
    pub(super) async fn shut_down(self) {
        self.stop.cancel();
        // The streams end by the token; a client that never closes its connection must not hold us.
        let mut server = self.server;
        match timeout(RETRY_PAUSE, &mut server).await {
            Ok(Ok(Err(e))) => {
                warn!(socket = %self.socket.display(), error = %error_chain(&e), "server ended badly");
            }
            Ok(_) => {}
            Err(_) => server.abort(),
        }
    }
}

/// Answers the plugin watcher.
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
            warn!(resource = self.resource, error, "the kubelet's plugin watcher did not register us");
        }
        self.status.send_replace(Some(plugin_registered));
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}

fn socket_identity(path: &Path) -> Option<SocketIdentity> {
    let at = fs::symlink_metadata(path).ok()?;
    Some((at.dev(), at.ino(), at.ctime(), at.ctime_nsec()))
}
