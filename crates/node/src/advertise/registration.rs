//! Being known to the kubelet, for as long as both live.
//!
//! A kubelet that starts empties its folder, our socket included, and forgets who was registered. So the folder is
//! watched: when `kubelet.sock` is another file than the one we registered at, or our own socket is gone, we
//! serve on a new socket and register again. The other way is a socket in the folder that the kubelet's plugin watcher
//! looks at; it comes back to that by itself.

use super::{
    plugin_server::{PluginServer, socket_name},
    resource_plugin::ResourcePlugin,
};
use crate::{Error, dir_watch::WatchedDir, error::error_chain};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// The pause after a failed attempt: a kubelet that is starting refuses for a moment.
pub(super) const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// How the kubelet gets to know us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RegistrationMode {
    /// By its plugin watcher where its folder is there, else by a call.
    #[default]
    Auto,
    /// We call it.
    Call,
    /// Its plugin watcher finds our socket.
    Watcher,
}

/// Where the kubelet is.
#[derive(Clone, Debug)]
pub struct KubeletDir {
    /// Its folder: `/var/lib/kubelet`.
    pub path: PathBuf,
    /// How it gets to know us.
    pub registration: RegistrationMode,
}

impl KubeletDir {
    /// The folder of device plugins and of the kubelet's own socket.
    pub fn device_plugins_dir(&self) -> PathBuf {
        self.path.join("device-plugins")
    }

    /// The folder that the plugin watcher looks at.
    pub fn plugins_registry_dir(&self) -> PathBuf {
        self.path.join("plugins_registry")
    }

    fn uses_plugin_watcher(&self) -> bool {
        match self.registration {
            RegistrationMode::Call => false,
            RegistrationMode::Watcher => true,
            RegistrationMode::Auto => self.plugins_registry_dir().is_dir(),
        }
    }
}

/// Offer what `plugin` serves, until `stop`. `registered` tells whether the kubelet knows us.
pub(super) async fn run_plugin(
    kubelet: KubeletDir,
    plugin: ResourcePlugin,
    registered: watch::Sender<bool>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let offering = async {
        loop {
            let watcher = kubelet.uses_plugin_watcher();
            let folder = if watcher { kubelet.plugins_registry_dir() } else { kubelet.device_plugins_dir() };
            let mut watched = WatchedDir::watch_when_present(&folder).await?;
            let lost = serve_plugin(&folder, watcher, &plugin, &mut watched, &registered).await;
            registered.send_replace(false);
            if let Err(e) = lost {
                let resource = &plugin.resource;
                warn!(resource, error = %error_chain(&e), "not registered at the kubelet; trying again");
                sleep(RETRY_PAUSE).await;
            }
        }
    };
    tokio::select! {
        end = offering => end,
        () = stop.cancelled() => {
            // A socket that is left behind would be dialled by the plugin watcher for ever.
            let _ = std::fs::remove_file(kubelet.plugins_registry_dir().join(socket_name(&plugin.resource)));
            Ok(())
        }
    }
}

async fn serve_plugin(
    folder: &Path,
    watcher: bool,
    plugin: &ResourcePlugin,
    watched: &mut WatchedDir,
    registered: &watch::Sender<bool>,
) -> Result<(), Error> {
    let session = PluginServer::start(folder, plugin)?;
    let lost = match watcher {
        true => session.wait_for_watcher(watched, registered).await,
        false => session.register_and_wait(watched, registered).await,
    };
    session.shut_down().await;
    lost
}
