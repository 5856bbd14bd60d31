//! Registration at the kubelet.
//!
//! A starting kubelet empties its device plugin directory, including our socket, and forgets all registrations. The
//! directory is therefore watched: when `kubelet.sock` is replaced or our socket is removed, the plugin serves on a
//! new socket and registers again. Alternatively, the plugin puts its socket into the directory of the kubelet's
//! plugin watcher, which finds it again by itself.

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

/// Pause after a failed attempt. A starting kubelet refuses calls for a moment.
pub(super) const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// How the plugin registers at the kubelet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RegistrationMode {
    /// By the plugin watcher if its directory exists, otherwise by a call.
    #[default]
    Auto,
    /// The plugin calls `Register` on `kubelet.sock`.
    Call,
    /// The kubelet's plugin watcher finds the socket of the plugin.
    Watcher,
}

/// The kubelet's state directory.
#[derive(Clone, Debug)]
pub struct KubeletDir {
    /// `/var/lib/kubelet`.
    pub path: PathBuf,
    pub registration: RegistrationMode,
}

impl KubeletDir {
    /// Directory of `kubelet.sock` and the sockets of device plugins.
    pub fn device_plugins_dir(&self) -> PathBuf {
        self.path.join("device-plugins")
    }

    /// Directory of the plugin watcher.
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

/// Serves `plugin` and keeps it registered until `stop`. `registered` says whether the kubelet knows it.
pub(super) async fn run_plugin(
    kubelet: KubeletDir,
    plugin: ResourcePlugin,
    registered: watch::Sender<bool>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let serving = async {
        loop {
            let watcher = kubelet.uses_plugin_watcher();
            let dir = if watcher { kubelet.plugins_registry_dir() } else { kubelet.device_plugins_dir() };
            let mut watched = WatchedDir::watch_when_present(&dir).await?;
            let result = serve_plugin(&dir, watcher, &plugin, &mut watched, &registered).await;
            registered.send_replace(false);
            if let Err(e) = result {
                let resource = &plugin.resource;
                warn!(resource, error = %error_chain(&e), "cannot register at the kubelet, retrying");
                sleep(RETRY_PAUSE).await;
            }
        }
    };
    tokio::select! {
        result = serving => result,
        () = stop.cancelled() => {
            // The plugin watcher would dial a leftover socket forever.
            let _ = std::fs::remove_file(kubelet.plugins_registry_dir().join(socket_name(&plugin.resource)));
            Ok(())
        }
    }
}

async fn serve_plugin(
    dir: &Path,
    watcher: bool,
    plugin: &ResourcePlugin,
    watched: &mut WatchedDir,
    registered: &watch::Sender<bool>,
) -> Result<(), Error> {
    let server = PluginServer::start(dir, plugin)?;
    let result = match watcher {
        true => server.wait_for_watcher(watched, registered).await,
        false => server.register_and_wait(watched, registered).await,
    };
    server.shut_down().await;
    result
}
