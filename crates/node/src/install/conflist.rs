//! The CNI configuration that makes the runtime call Ferroband.

use super::{uninstall, write_atomically};
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
    time::Duration,
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

/// Keeps our configuration in `folder` in sync with the network that it wraps. Returns only errors.
/// Sends to `written` whether the file exists.
pub async fn keep_conflist(
    root: Root,
    folder: PathBuf,
    plain_pods: PlainPods,
    written: watch::Sender<bool>,
) -> Result<(), Error> {
    let mut last_problem = String::new();
    loop {
        let mut watched = WatchedDir::watch_when_present(&folder).await;
        loop {
            match sync_conflist(&root, &folder, &plain_pods).await {
                Ok(()) => {
                    last_problem.clear();
                    written.send_replace(true);
                }
                Err(e) => {
                    // The existing configuration file of Ferroband is kept. With it, ADDs fail with an
                    // error. Without it, the runtime would attach pods to the default network only,
                    // without an error.
                    let problem = e.to_string();
                    if problem != last_problem {
                        warn!(folder = %folder.display(), "{problem}");
                        last_problem = problem;
                    }
                    written.send_replace(fs::exists(folder.join(CONFLIST)).unwrap_or(false));
                }
            }
            match time::timeout(RESYNC_INTERVAL, watched.changed()).await {
                Ok(true) | Err(_) => {}
                Ok(false) => break,
            }
        }
    }
}

async fn sync_conflist(root: &Root, folder: &Path, plain_pods: &PlainPods) -> Result<(), Error> {
    let (root, folder, plain_pods) = (root.clone(), folder.to_owned(), plain_pods.clone());
    let writing = blocking("CNI configuration writer", move || match uninstall::is_uninstalled(&root) {
        // Ferroband is being uninstalled from this node, so its CNI configuration must not be written again.
        true => Ok(()),
        false => write_conflist(&folder, &plain_pods),
    });
    writing.await?
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
