//! One life of the socket of a resource.

use super::{
    authority::Localised,
    plugin::{Plugin, options},
    register::PAUSE,
    registry::{
        InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
        registration_server::{Registration, RegistrationServer},
    },
    wire::{
        RegisterRequest, device_plugin_server::DevicePluginServer, registration_client::RegistrationClient,
    },
};
use crate::{Error, error::chain, folder::Folder};
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
const PATIENCE: Duration = Duration::from_secs(5);

/// Which file a path names: a socket made anew has another identity even if the inode number is reused.
type Identity = (u64, u64, i64, i64);

/// The name of the socket of `resource`.
pub(super) fn endpoint(resource: &str) -> String {
    format!("ferroband-{}.sock", resource.replace('/', "-"))
}

/// One life of our socket.
pub(super) struct Session {
    resource: String,
    socket: PathBuf,
    kubelet: PathBuf,
    stop: CancellationToken,
    /// What the plugin watcher said last.
    told: watch::Receiver<Option<bool>>,
    server: JoinHandle<Result<(), tonic::transport::Error>>,
}

impl Session {
    /// Serve on a new socket in `folder`.
    pub(super) fn open(folder: &Path, plugin: &Plugin) -> Result<Self, Error> {
        let resource = plugin.resource.clone();
        let socket = folder.join(endpoint(&resource));
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
        let known = Known { resource: resource.clone(), socket: socket.clone(), tell };
        let ended = stop.clone();
        let calls = UnixListenerStream::new(listener).map(|call| call.map(Localised::new));
        let server = tokio::spawn(
            Server::builder()
                .add_service(DevicePluginServer::new(Plugin { stop: stop.clone(), ..plugin.clone() }))
                .add_service(RegistrationServer::new(known))
                .serve_with_incoming_shutdown(calls, async move {
                    ended.cancelled().await;
                }),
        );
        Ok(Self { resource, socket, kubelet: folder.join("kubelet.sock"), stop, told, server })
    }

    /// Registers, and returns when the kubelet no longer knows this socket.
    pub(super) async fn until_lost(
        &self,
        folder: &mut Folder,
        registered: &watch::Sender<bool>,
    ) -> Result<(), Error> {
        let at = loop {
            match (identity(&self.kubelet), identity(&self.socket)) {
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
        while identity(&self.kubelet) == Some(at) && identity(&self.socket).is_some() {
            if !folder.changed().await {
                break;
            }
        }
        info!(resource = self.resource, "the kubelet has gone or is new");
        Ok(())
    }

    /// Waits to be found by the plugin watcher, and returns when the socket is gone or the kubelet did not want it.
    pub(super) async fn until_unwatched(
        &self,
        folder: &mut Folder,
        registered: &watch::Sender<bool>,
    ) -> Result<(), Error> {
        let mut told = self.told.clone();
        while identity(&self.socket).is_some() {
            let said = *told.borrow_and_update();
            match said {
                Some(true) => {
                    registered.send_replace(true);
                }
                // It was said why; a new socket is looked at anew.
                Some(false) => {
                    tokio::time::sleep(PAUSE).await;
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
            path: self.kubelet.clone(),
            resource: self.resource.clone(),
            source: Box::new(source),
        };
        let unreachable =
            |e: tonic::transport::Error| Error::Serve { path: self.kubelet.clone(), source: Box::new(e) };
        let kubelet = Endpoint::from_shared(format!("unix://{}", self.kubelet.display()))
            .map_err(unreachable)?
            .connect_timeout(PATIENCE)
            .timeout(PATIENCE);
        let channel = kubelet.connect().await.map_err(unreachable)?;
        let request = RegisterRequest {
            version: "v1beta1".to_owned(),
            endpoint: endpoint(&self.resource),
            resource_name: self.resource.clone(),
            options: Some(options()),
        };
        RegistrationClient::new(channel).register(request).await.map_err(refused)?;
        Ok(())
    }

    /// End it.
    pub(super) async fn close(self) {
        self.stop.cancel();
        // The streams end by the token; a client that never closes its connection must not hold us.
        let mut server = self.server;
        match timeout(PAUSE, &mut server).await {
            Ok(Ok(Err(e))) => {
                warn!(socket = %self.socket.display(), error = %chain(&e), "server ended badly");
            }
            Ok(_) => {}
            Err(_) => server.abort(),
        }
    }
}

/// Answers the plugin watcher.
struct Known {
    resource: String,
    socket: PathBuf,
    tell: watch::Sender<Option<bool>>,
}

#[tonic::async_trait]
impl Registration for Known {
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
        self.tell.send_replace(Some(plugin_registered));
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}

fn identity(path: &Path) -> Option<Identity> {
    let at = fs::symlink_metadata(path).ok()?;
    Some((at.dev(), at.ino(), at.ctime(), at.ctime_nsec()))
}
