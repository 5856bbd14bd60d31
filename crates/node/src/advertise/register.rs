//! Being known to the kubelet, for as long as both live.
//!
//! A kubelet that starts empties its folder, our socket included, and forgets who was registered. So the folder is
//! watched: when `kubelet.sock` is another file than the one we registered at, or our own socket is gone, we
//! serve on a new socket and register again.

use super::{
    Resource,
    plugin::Plugin,
    wire::{
        DevicePluginOptions, RegisterRequest, device_plugin_server::DevicePluginServer,
        registration_client::RegistrationClient,
    },
};
use crate::{Error, discover::Inventory, error::chain, folder::Folder};
use std::{
    fs,
    io::ErrorKind,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::UnixListener,
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Endpoint, Server};
use tracing::{info, warn};

/// How long one registration may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pause after a failed attempt: a kubelet that is starting refuses for a moment.
const PAUSE: Duration = Duration::from_millis(200);

/// Which file a path names: a socket made anew has another identity even if the inode number is reused.
type Identity = (u64, u64, i64, i64);

/// Offer `resource` to the kubelet whose sockets are in `folder`, from the first time there is a device until
/// `stop`. `registered` tells whether the kubelet knows us.
pub async fn keep_registered(
    folder: PathBuf,
    resource: Resource,
    mut inventory: watch::Receiver<Arc<Inventory>>,
    registered: watch::Sender<bool>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let offering = async {
        // A node without devices does not show the resource at all, rather than a capacity of zero.
        let any = inventory.wait_for(|inventory| !resource.devices(inventory).is_empty()).await;
        any.map_err(|e| Error::Task { task: "discovery", source: Some(Box::new(e)) })?;
        loop {
            let mut watched = Folder::appear(&folder).await?;
            let lost = match Session::open(&folder, &resource, inventory.clone()) {
                Ok(session) => {
                    let lost = session.until_lost(&mut watched, &registered).await;
                    registered.send_replace(false);
                    session.close().await;
                    lost
                }
                Err(e) => Err(e),
            };
            if let Err(e) = lost {
                warn!(resource = resource.name, error = %chain(&e), "not registered at the kubelet; trying again");
                sleep(PAUSE).await;
            }
        }
    };
    tokio::select! {
        end = offering => end,
        () = stop.cancelled() => Ok(()),
    }
}

/// One life of our socket.
struct Session {
    resource: Resource,
    socket: PathBuf,
    kubelet: PathBuf,
    stop: CancellationToken,
    server: JoinHandle<Result<(), tonic::transport::Error>>,
}

impl Session {
    fn open(
        folder: &Path,
        resource: &Resource,
        inventory: watch::Receiver<Arc<Inventory>>,
    ) -> Result<Self, Error> {
        let socket = folder.join(resource.endpoint());
        match fs::remove_file(&socket) {
            Err(source) if source.kind() != ErrorKind::NotFound => {
                return Err(Error::File { action: "remove", path: socket, source });
            }
            _ => {}
        }
        let listener = UnixListener::bind(&socket)
            .map_err(|e| Error::Serve { path: socket.clone(), source: Box::new(e) })?;
        let stop = CancellationToken::new();
        let plugin = Plugin { resource: resource.clone(), inventory, stop: stop.clone() };
        let ended = stop.clone();
        let server = tokio::spawn(
            Server::builder().add_service(DevicePluginServer::new(plugin)).serve_with_incoming_shutdown(
                UnixListenerStream::new(listener),
                async move {
                    ended.cancelled().await;
                },
            ),
        );
        Ok(Self { resource: resource.clone(), socket, kubelet: folder.join("kubelet.sock"), stop, server })
    }

    /// Registers, and returns when the kubelet no longer knows this socket.
    async fn until_lost(&self, folder: &mut Folder, registered: &watch::Sender<bool>) -> Result<(), Error> {
        let at = loop {
            match (identity(&self.kubelet), identity(&self.socket)) {
                (_, None) => return Ok(()),
                (Some(at), _) => break at,
                (None, _) => {
                    if !folder.changed().await? {
                        return Ok(());
                    }
                }
            }
        };
        self.register().await?;
        registered.send_replace(true);
        info!(resource = self.resource.name, "registered at the kubelet");
        while identity(&self.kubelet) == Some(at) && identity(&self.socket).is_some() {
            if !folder.changed().await? {
                break;
            }
        }
        info!(resource = self.resource.name, "the kubelet has gone or is new");
        Ok(())
    }

    async fn register(&self) -> Result<(), Error> {
        let refused = |source| Error::Register {
            path: self.kubelet.clone(),
            resource: self.resource.name.clone(),
            source: Box::new(source),
        };
        let unreachable =
            |e: tonic::transport::Error| Error::Serve { path: self.kubelet.clone(), source: Box::new(e) };
        let endpoint = Endpoint::from_shared(format!("unix://{}", self.kubelet.display()))
            .map_err(unreachable)?
            .connect_timeout(PATIENCE)
            .timeout(PATIENCE);
        let channel = endpoint.connect().await.map_err(unreachable)?;
        let request = RegisterRequest {
            version: "v1beta1".to_owned(),
            endpoint: self.resource.endpoint(),
            resource_name: self.resource.name.clone(),
            options: Some(DevicePluginOptions::default()),
        };
        RegistrationClient::new(channel).register(request).await.map_err(refused)?;
        Ok(())
    }

    async fn close(self) {
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

fn identity(path: &Path) -> Option<Identity> {
    let at = fs::symlink_metadata(path).ok()?;
    Some((at.dev(), at.ino(), at.ctime(), at.ctime_nsec()))
}
