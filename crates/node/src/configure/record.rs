//! State of an adapter before Ferroband changed it, so that it can be restored.
//!
//! One file per adapter that Ferroband manages. It is written before the first change and removed after the last one
//! is undone. A daemon that is killed in between continues from it.

use super::ObservedAdapter;
use crate::{Error, install::write_atomically};
use ferroband_kernel::Root;
use ferroband_model::PciAddress;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder},
    io::ErrorKind,
    path::PathBuf,
};

/// The original state of an adapter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdapterOriginalState {
    /// Number of functions.
    pub vfs: u16,
    pub mtu: Option<u32>,
    pub up: Option<bool>,
    /// Whether its functions are externally managed.
    #[serde(default)]
    pub external: bool,
    /// Names of its interface. Another link layer gives it another name.
    #[serde(default)]
    pub names: Vec<String>,
}

impl AdapterOriginalState {
    /// Captures the current state.
    pub fn capture(adapter: &ObservedAdapter, external: bool) -> Self {
        let names = adapter.status.name.iter().chain(&adapter.status.alt_names).cloned().collect();
        Self {
            vfs: u16::try_from(adapter.vfs.len()).unwrap_or(u16::MAX),
            mtu: adapter.interface.as_ref().map(|interface| interface.mtu),
            up: adapter.interface.as_ref().map(|interface| interface.up),
            external,
            names,
        }
    }
}

/// The original states of all managed adapters.
#[derive(Clone, Debug)]
pub struct OriginalStateStore {
    dir: PathBuf,
}

impl OriginalStateStore {
    /// Opens the store under `root`.
    pub fn open(root: &Root) -> Result<Self, Error> {
        let dir = root.state("configure");
        let created = DirBuilder::new().recursive(true).create(&dir);
        created.map_err(|source| Error::File { action: "create", path: dir.clone(), source })?;
        Ok(Self { dir })
    }

    fn path(&self, pci: PciAddress) -> PathBuf {
        self.dir.join(format!("{pci}.json"))
    }

    /// Reads all states. An unreadable file is an error: the original state would be lost.
    pub fn read_all(&self) -> Result<BTreeMap<PciAddress, AdapterOriginalState>, Error> {
        let mut states = BTreeMap::new();
        let list_error = |source| Error::File { action: "list", path: self.dir.clone(), source };
        for entry in fs::read_dir(&self.dir).map_err(list_error)? {
            let name = entry.map_err(list_error)?.file_name();
            let Some(pci) = name.to_str().and_then(|name| name.strip_suffix(".json")?.parse().ok()) else {
                continue;
            };
            let path = self.path(pci);
            let text = fs::read(&path).map_err(|source| Error::File {
                action: "read",
                path: path.clone(),
                source,
            })?;
            let state = serde_json::from_slice(&text)
                .map_err(|e| Error::Unreadable { object: path.display().to_string(), source: Box::new(e) })?;
            states.insert(pci, state);
        }
        Ok(states)
    }

    pub fn write(&self, pci: PciAddress, state: &AdapterOriginalState) -> Result<(), Error> {
        let path = self.path(pci);
        let text = serde_json::to_vec(state)
            .map_err(|e| Error::Unreadable { object: path.display().to_string(), source: Box::new(e) })?;
        write_atomically(&path, &mut text.as_slice(), 0o600)
    }

    pub fn remove(&self, pci: PciAddress) -> Result<(), Error> {
        let path = self.path(pci);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != ErrorKind::NotFound => {
                Err(Error::File { action: "remove", path, source })
            }
            _ => Ok(()),
        }
    }
}
