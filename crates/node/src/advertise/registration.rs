//! Registration at the kubelet.
//!
//! A starting kubelet removes all sockets from its device plugin directory and forgets all registrations. The
//! plugin therefore watches the directory. When `kubelet.sock` is replaced or the plugin's socket is removed, the
//! plugin serves on a new socket and registers again. Alternatively, the plugin puts its socket into the directory
//! of the kubelet's plugin watcher, which finds it automatically, also after a restart of the kubelet.

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

/// Pause after a failed registration. A starting kubelet refuses calls for a moment.
pub(super) const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// How plugins register with the kubelet: by calling `Register`, or through its plugin watcher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RegistrationMode {
    /// Uses the plugin watcher if its directory exists, otherwise calls `Register`.
    #[default]
    Auto,
    /// The plugin calls `Register` on `kubelet.sock`.
    Call,
    /// The kubelet's plugin watcher finds the socket of the plugin.
    Watcher,
}

/// The kubelet's state directory, and how plugins register there.
#[derive(Clone, Debug)]
pub struct KubeletDir {
    /// Usually `/var/lib/kubelet`.
    pub path: PathBuf,
    pub registration: RegistrationMode,
}

impl KubeletDir {
    /// Directory that contains `kubelet.sock` and the sockets of plugins that call `Register`.
    pub fn device_plugins_dir(&self) -> PathBuf {
        self.path.join("device-plugins")
    }

    /// Directory in which the kubelet's plugin watcher looks for sockets.
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

/// Serves `plugin` and keeps it registered until `stop`. `registered` is `true` while the plugin is registered.
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
            let mut watched = WatchedDir::watch_when_present(&dir).await;
            let result = serve_plugin(&dir, watcher, &plugin, &mut watched, &registered).await;
            registered.send_replace(false);
            if let Err(e) = result {
                let resource = &plugin.resource;
                warn!(resource, error = %error_chain(&e), "cannot register with the kubelet, retrying");
                sleep(RETRY_PAUSE).await;
            }
        }
    };
    tokio::select! {
        result = serving => result,
        () = stop.cancelled() => {
            // The plugin watcher would dial a leftover socket forever. In the other directory, a socket would stay
            // after an uninstallation until the kubelet restarts.
            for dir in [kubelet.plugins_registry_dir(), kubelet.device_plugins_dir()] {
                let _ = std::fs::remove_file(dir.join(socket_name(&plugin.resource)));
            }
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
