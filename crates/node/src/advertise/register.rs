//! Being known to the kubelet, for as long as both live.
//!
//! A kubelet that starts empties its folder, our socket included, and forgets who was registered. So the folder is
//! watched: when `kubelet.sock` is another file than the one we registered at, or our own socket is gone, we
//! serve on a new socket and register again. The other way is a socket in the folder that the kubelet's plugin watcher
//! looks at; it comes back to that by itself.

use super::{
    plugin::Plugin,
    session::{Session, endpoint},
};
use crate::{Error, error::chain, folder::Folder};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// The pause after a failed attempt: a kubelet that is starting refuses for a moment.
pub(super) const PAUSE: Duration = Duration::from_millis(200);

/// How the kubelet gets to know us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
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
pub struct Kubelet {
    /// Its folder: `/var/lib/kubelet`.
    pub folder: PathBuf,
    /// How it gets to know us.
    pub way: Way,
}

impl Kubelet {
    /// The folder of device plugins and of the kubelet's own socket.
    pub fn device_plugins(&self) -> PathBuf {
        self.folder.join("device-plugins")
    }

    /// The folder that the plugin watcher looks at.
    pub fn registry(&self) -> PathBuf {
        self.folder.join("plugins_registry")
    }

    fn watches(&self) -> bool {
        match self.way {
            Way::Call => false,
            Way::Watcher => true,
            Way::Auto => self.registry().is_dir(),
        }
    }
}

/// Offer what `plugin` serves, until `stop`. `registered` tells whether the kubelet knows us.
pub(super) async fn keep_registered(
    kubelet: Kubelet,
    plugin: Plugin,
    registered: watch::Sender<bool>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let offering = async {
        loop {
            let watcher = kubelet.watches();
            let folder = if watcher { kubelet.registry() } else { kubelet.device_plugins() };
            let mut watched = Folder::appear(&folder).await?;
            let lost = one_life(&folder, watcher, &plugin, &mut watched, &registered).await;
            registered.send_replace(false);
            if let Err(e) = lost {
                let resource = &plugin.resource;
                warn!(resource, error = %chain(&e), "not registered at the kubelet; trying again");
                sleep(PAUSE).await;
            }
        }
    };
    tokio::select! {
        end = offering => end,
        () = stop.cancelled() => {
            // A socket that is left behind would be dialled by the plugin watcher for ever.
            let _ = std::fs::remove_file(kubelet.registry().join(endpoint(&plugin.resource)));
            Ok(())
        }
    }
}

async fn one_life(
    folder: &Path,
    watcher: bool,
    plugin: &Plugin,
    watched: &mut Folder,
    registered: &watch::Sender<bool>,
) -> Result<(), Error> {
    let session = Session::open(folder, plugin)?;
    let lost = match watcher {
        true => session.until_unwatched(watched, registered).await,
        false => session.until_lost(watched, registered).await,
    };
    session.close().await;
    lost
}
