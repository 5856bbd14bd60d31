//! The cluster's default network, which the runtime would use without Ferroband.
//!
//! It is read from the runtime's configuration directory on every ADD, because its owner (Calico, Cilium, …) may
//! rewrite it at any time.

use ferroband_api::cncf::NetworkConfig;
use ferroband_config::{PluginType, capabilities, plugin_name};
use ferroband_model::{ConfigObject, Fault, FaultCode};
use serde_json::{Map, Value};
use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

/// Name of our CNI configuration file. Container runtimes use the file whose name sorts first.
pub const CONFLIST: &str = "00-ferroband.conflist";

/// The configuration of the default network and the file that it was read from.
#[derive(Clone, Debug, PartialEq)]
pub struct DefaultNetwork {
    pub file: PathBuf,
    pub network: NetworkConfig,
}

impl DefaultNetwork {
    /// Returns every capability that at least one plugin of the network enables.
    pub fn capabilities(&self) -> Map<String, Value> {
        let all = self.network.plugins.iter().flat_map(capabilities);
        all.map(|name| (name.to_owned(), Value::Bool(true))).collect()
    }
}

/// Finds the default network in `folder`: the first file in name order, as runtimes do, that does not contain
/// a meta plugin.
///
/// An unreadable file stops the search: the next file may be a different network, and a pod on the wrong network is
/// worse than a pod that waits.
pub fn find_default_network(folder: &Path) -> Result<DefaultNetwork, Fault> {
    let broken = |path: &Path, cause: String| {
        let what = format!("default network in {}", path.display());
        Fault::new(
            FaultCode::NoDefaultNetwork,
            what,
            cause,
            "repair the file; the pod is retried automatically",
        )
    };
    let files =
        list_files(folder, &["conf", "conflist", "json"]).map_err(|e| broken(folder, e.to_string()))?;
    for file in files.into_iter().filter(|file| file.file_name().is_some_and(|name| name != CONFLIST)) {
        let network = read_network(&file).map_err(|cause| broken(&file, cause))?;
        if !is_meta_plugin(&network) {
            return Ok(DefaultNetwork { file, network });
        }
    }
    Err(Fault::new(
        FaultCode::NoDefaultNetwork,
        format!("directory {}", folder.display()),
        "no CNI configuration that Ferroband can wrap",
        "install the cluster's network plugin; the pod is retried automatically",
    ))
}

/// Reads the default network from the file `path`. If `path` is a directory, searches it with
/// [`find_default_network`].
pub fn read_default_network(path: &Path) -> Result<DefaultNetwork, Fault> {
    if path.is_dir() {
        return find_default_network(path);
    }
    match read_network(path) {
        Ok(network) => Ok(DefaultNetwork { file: path.to_owned(), network }),
        Err(cause) => {
            let what = format!("clusterNetwork {}", path.display());
            let remedy = "correct `clusterNetwork` in Ferroband's CNI configuration, or repair the file";
            Err(Fault::new(FaultCode::NoDefaultNetwork, what, cause, remedy))
        }
    }
}

/// Finds the configuration file in `folder` whose network has this name.
pub fn find_network_by_name(folder: &Path, name: &str) -> Result<DefaultNetwork, Fault> {
    let missing = || {
        Fault::new(
            FaultCode::NoDefaultNetwork,
            format!("clusterNetwork {name}"),
            format!("no NetworkAttachmentDefinition and no file in {} has this name", folder.display()),
            "correct `clusterNetwork` in Ferroband's CNI configuration",
        )
    };
    for file in list_files(folder, &["conf", "conflist", "json"]).map_err(|_| missing())? {
        let network = read_default_network(&file)?;
        if network.network.name == name {
            return Ok(network);
        }
    }
    Err(missing())
}

/// Whether the network contains a meta plugin, which wraps the default network as Ferroband does. Wrapping it would
/// attach every additional network twice.
pub(super) fn is_meta_plugin(network: &NetworkConfig) -> bool {
    network.plugins.iter().any(|plugin| PluginType::is_meta_name(plugin_name(plugin)))
}

/// Lists the files in `folder` that have one of these extensions, sorted by name. The result is empty if the
/// directory does not exist.
pub(super) fn list_files(folder: &Path, endings: &[&str]) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let ending = path.extension().and_then(|ending| ending.to_str());
        if ending.is_some_and(|ending| endings.contains(&ending)) && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

pub(super) fn read_network(file: &Path) -> Result<NetworkConfig, String> {
    let text = |path: &Path| fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()));
    let object = |path: &Path| -> Result<Map<String, Value>, String> {
        let read: Result<ConfigObject, _> = serde_json::from_str(&text(path)?);
        read.map(|object| object.0).map_err(|e| format!("{}: {e}", path.display()))
    };
    NetworkConfig::from_file(object(file)?, |name| {
        let files = list_files(&file.with_file_name(name), &["conf"]).map_err(|e| e.to_string())?;
        files.iter().map(|path| object(path).map(Value::Object)).collect()
    })
}
