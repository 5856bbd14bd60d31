//! State of an adapter before Ferroband changed it, so that it can be restored.
//!
//! Each adapter that Ferroband manages has one file. It is written before the first change and removed after all
//! changes are undone, so a daemon that is killed in between still knows the original state.

use super::ObservedAdapter;
use crate::{
    Error,
    install::{create_dir, write_atomically},
};
use ferroband_kernel::{Root, files::remove_file};
use ferroband_model::{Guid, PciAddress};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::ErrorKind,
    path::PathBuf,
};

/// State of an adapter before Ferroband changed it. MTU and link state are absent if it had no interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdapterOriginalState {
    /// Number of virtual functions.
    pub vfs: u16,
    pub mtu: Option<u32>,
    pub up: Option<bool>,
    /// Whether the policy declares the adapter as externally managed. Then nothing is restored.
    #[serde(default)]
    pub external: bool,
    /// Name and alternative names of the interface. They are recorded because a change of the link layer
    /// renames the interface.
    #[serde(default)]
    pub names: Vec<String>,
    /// GUIDs with which the functions were found, by VF index. A function keeps its GUID, because the subnet manager
    /// and running pods know it by that.
    #[serde(default)]
    pub guids: BTreeMap<u32, Guid>,
}

impl AdapterOriginalState {
    /// Captures the current state of `adapter`, before the first change.
    pub fn capture(adapter: &ObservedAdapter, external: bool) -> Self {
        let names = adapter.status.name.iter().chain(&adapter.status.alt_names).cloned().collect();
        let mut unique = BTreeSet::new();
        let guids = adapter
            .vfs
            .iter()
            // The GUID that a pod requested is not the function's own.
            .filter(|vf| !vf.guid_requested)
            .filter_map(|vf| Some((vf.index, vf.current_guid()?)))
            .filter(|(_, guid)| unique.insert(*guid))
            .collect();
        Self {
            vfs: u16::try_from(adapter.vfs.len()).unwrap_or(u16::MAX),
            mtu: adapter.interface.as_ref().map(|interface| interface.mtu),
            up: adapter.interface.as_ref().map(|interface| interface.up),
            external,
            names,
            guids,
        }
    }
}

/// Directory with the original states of all managed adapters, one `<PCI address>.json` each.
#[derive(Clone, Debug)]
pub struct OriginalStateStore {
    dir: PathBuf,
}

impl OriginalStateStore {
    /// Returns the store under `root`. Its directory is created by the first write.
    pub fn new(root: &Root) -> Self {
        Self { dir: root.state("configure") }
    }

    fn path(&self, pci: PciAddress) -> PathBuf {
        self.dir.join(format!("{pci}.json"))
    }

    /// Reads all states. An unreadable file is an error. If it were ignored, the original state would be
    /// overwritten.
    pub fn read_all(&self) -> Result<BTreeMap<PciAddress, AdapterOriginalState>, Error> {
        let mut states = BTreeMap::new();
        let list_error = |source| Error::File { action: "list", path: self.dir.clone(), source };
        let entries = match fs::read_dir(&self.dir) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(states),
            entries => entries.map_err(list_error)?,
        };
        for entry in entries {
            let name = entry.map_err(list_error)?.file_name();
            let Some(pci) = name.to_str().and_then(|name| name.strip_suffix(".json")?.parse().ok()) else {
                continue;
            };
            let path = self.path(pci);
            let text = fs::read(&path).map_err(Error::file("read", &path))?;
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
        create_dir(&self.dir)?;
        write_atomically(&path, &mut text.as_slice(), 0o600)
    }

    pub fn remove(&self, pci: PciAddress) -> Result<(), Error> {
        let path = self.path(pci);
        remove_file(&path).map_err(Error::file("remove", &path))
    }
}
