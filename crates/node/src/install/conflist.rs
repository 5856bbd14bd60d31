//! The CNI configuration that makes the runtime call Ferroband.

use super::{
    removal::{ConflistRemoval, RemovalCount},
    uninstall, write_atomically,
};
use crate::{
    Error,
    dir_watch::WatchedDir,
    error::blocking,
    resolve::{CONFLIST, DefaultNetwork, find_default_network},
};
use ferroband_attach::{CniVersion, POD_ANNOTATIONS_CAPABILITY, PlainPods};
use ferroband_kernel::Root;
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use tokio::{sync::watch, time};
use tracing::{info, warn};

/// Lowest `cniVersion` that our configuration declares. If the default network has an older version, its
/// results are converted.
const MIN_CNI_VERSION: CniVersion = CniVersion::V1_0_0;
/// How often the CNI configuration directory is checked without an inotify event, in case an event is lost.
const RESYNC_INTERVAL: Duration = Duration::from_secs(30);

/// Renders the configuration that makes the runtime call Ferroband instead of the network `wrapped`.
///
/// The configuration has the name of the wrapped network, because runtimes show it and use it as a cache key.
/// It has the capabilities of the wrapped plugins, so that the runtime passes what they need (port mappings,
/// bandwidth). It also contains the wrapped network itself, so that a DEL, GC or STATUS reaches its plugins
/// even if there is no journal (for pods older than Ferroband) or no daemon. With `plain_pods` and the pod's
/// annotations, for which it has a capability, ADD of a pod without other networks needs no daemon either.
pub fn render_conflist(wrapped: &DefaultNetwork, plain_pods: &PlainPods) -> String {
    let mut capabilities = wrapped.capabilities();
    capabilities.insert(POD_ANNOTATIONS_CAPABILITY.to_owned(), true.into());
    let version =
        CniVersion::parse(&wrapped.network.cni_version).unwrap_or(MIN_CNI_VERSION).max(MIN_CNI_VERSION);
    let conflist = json!({
        "cniVersion": version.as_str(),
        "name": wrapped.network.name,
        // The plugins in the subdirectory of the wrapped network are in `delegates`. libcni would append them to this
        // list as well, because it finds the subdirectory by the network's name (CNI specification 1.1, section 1).
        "loadOnlyInlinedPlugins": true,
        "plugins": [{
            "type": "ferroband",
            "capabilities": capabilities,
            PlainPods::KEY: plain_pods,
            "delegates": [wrapped.network.whole],
        }],
    });
    format!("{conflist:#}\n")
}

/// Whether our CNI configuration is installed, for the readiness and the node condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConflistStatus {
    pub installed: bool,
    /// Set while another program keeps removing the file.
    pub problem: Option<String>,
}

/// Keeps our configuration in `folder` in sync with the network that it wraps, and sends whether it is installed.
/// Never returns.
pub async fn keep_conflist(
    root: Root,
    folder: PathBuf,
    plain_pods: PlainPods,
    status: watch::Sender<ConflistStatus>,
) {
    let (removals, last_problem) = (RemovalCount::default(), String::new());
    let mut keeper =
        ConflistKeeper { root, folder: folder.clone(), plain_pods, status, removals, last_problem };
    loop {
        let mut watched = WatchedDir::watch_when_present(&folder).await;
        loop {
            let pause = keeper.sync().await;
            match time::timeout(pause, watched.changed()).await {
                Ok(true) | Err(_) => {}
                Ok(false) => break,
            }
        }
    }
}

struct ConflistKeeper {
    root: Root,
    folder: PathBuf,
    plain_pods: PlainPods,
    status: watch::Sender<ConflistStatus>,
    removals: RemovalCount,
    last_problem: String,
}

impl ConflistKeeper {
    /// Writes the file if it is missing or outdated. Returns the pause until the next call, unless the folder changes.
    async fn sync(&mut self) -> Duration {
        if uninstall::is_uninstalled(&self.root) {
            // The file must not be written again. A new installation starts a new count.
            self.removals = RemovalCount::default();
            return RESYNC_INTERVAL;
        }
        if !self.is_installed() {
            let now = Instant::now();
            self.removals.record_missing(now);
            let pause = self.removals.pause(now);
            if !pause.is_zero() {
                self.report(false);
                return pause.min(RESYNC_INTERVAL);
            }
        }
        let (folder, plain_pods) = (self.folder.clone(), self.plain_pods.clone());
        let writing = blocking("CNI configuration writer", move || write_conflist(&folder, &plain_pods));
        match writing.await.and_then(|written| written) {
            Ok(()) => {
                self.last_problem.clear();
                self.removals.record_present(Instant::now());
                self.report(true);
            }
            Err(e) => {
                // The existing configuration file of Ferroband is kept. With it, ADDs fail with an error. Without
                // it, the runtime would attach pods to the default network only, without an error.
                let problem = e.to_string();
                if problem != self.last_problem {
                    warn!(folder = %self.folder.display(), "{problem}");
                    self.last_problem = problem;
                }
                self.report(self.is_installed());
            }
        }
        RESYNC_INTERVAL
    }

    fn is_installed(&self) -> bool {
        fs::exists(self.folder.join(CONFLIST)).unwrap_or(false)
    }

    fn report(&self, installed: bool) {
        let problem = self.removals.is_contested().then(|| {
            let ConflistRemoval { cause, remedy } = ConflistRemoval::explain(&self.folder);
            format!("{cause}, again and again; {remedy}; until then pods get the default network only")
        });
        let status = ConflistStatus { installed, problem };
        self.status.send_if_modified(|sent| {
            let changed = *sent != status;
            if let Some(problem) = status.problem.as_ref().filter(|_| sent.problem != status.problem) {
                warn!(folder = %self.folder.display(), "{problem}");
            }
            *sent = status;
            changed
        });
    }
}

/// Writes Ferroband's CNI configuration file to `folder`, unless the file already has the right content.
pub(super) fn write_conflist(folder: &Path, plain_pods: &PlainPods) -> Result<(), Error> {
    let wrapped = find_default_network(folder)?;
    let content = render_conflist(&wrapped, plain_pods);
    let path = folder.join(CONFLIST);
    if fs::read_to_string(&path).is_ok_and(|now| now == content) {
        return Ok(());
    }
    write_atomically(&path, &mut content.as_bytes(), 0o600)?;
    info!(file = %path.display(), wraps = %wrapped.file.display(), network = wrapped.network.name, "conflist written");
    Ok(())
}
