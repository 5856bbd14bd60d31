//! What an adapter was like before us, so that it can be that again.
//!
//! One file for each adapter that we have anything to do with. It is written before the first change and removed after
//! the last one is undone: killed in between, the next daemon finds it and goes on.

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

/// An adapter before us.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdapterOriginalState {
    /// How many functions it had.
    pub vfs: u16,
    /// The MTU of its interface.
    pub mtu: Option<u32>,
    /// Whether its interface was up.
    pub up: Option<bool>,
    /// Whether somebody else makes its functions.
    #[serde(default)]
    pub external: bool,
    /// What its interface was called: a change of what it speaks gives it another name.
    #[serde(default)]
    pub names: Vec<String>,
}

impl AdapterOriginalState {
    /// The adapter as it is now.
    pub fn capture(seen: &ObservedAdapter, external: bool) -> Self {
        let names = seen.status.name.iter().chain(&seen.status.alt_names).cloned().collect();
        Self {
            vfs: u16::try_from(seen.vfs.len()).unwrap_or(u16::MAX),
            mtu: seen.interface.as_ref().map(|interface| interface.mtu),
            up: seen.interface.as_ref().map(|interface| interface.up),
            external,
            names,
        }
    }
}

/// The records of a node.
#[derive(Clone, Debug)]
pub struct OriginalStateStore {
    folder: PathBuf,
}

impl OriginalStateStore {
    /// Those under `root`.
    pub fn open(root: &Root) -> Result<Self, Error> {
        let folder = root.state("configure");
        let made = DirBuilder::new().recursive(true).create(&folder);
        made.map_err(|source| Error::File { action: "make", path: folder.clone(), source })?;
        Ok(Self { folder })
    }

    fn path(&self, pci: PciAddress) -> PathBuf {
        self.folder.join(format!("{pci}.json"))
    }

    /// All of them. One that cannot be read is an error: without it nobody knows what to go back to.
    pub fn read_all(&self) -> Result<BTreeMap<PciAddress, AdapterOriginalState>, Error> {
        let mut all = BTreeMap::new();
        let failed = |source| Error::File { action: "list", path: self.folder.clone(), source };
        for entry in fs::read_dir(&self.folder).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let Some(pci) = name.to_str().and_then(|name| name.strip_suffix(".json")?.parse().ok()) else {
                continue;
            };
            let path = self.path(pci);
            let text = fs::read(&path).map_err(|source| Error::File {
                action: "read",
                path: path.clone(),
                source,
            })?;
            let record = serde_json::from_slice(&text)
                .map_err(|e| Error::Unreadable { object: path.display().to_string(), source: Box::new(e) })?;
            all.insert(pci, record);
        }
        Ok(all)
    }

    /// Write one down.
    pub fn write(&self, pci: PciAddress, record: &AdapterOriginalState) -> Result<(), Error> {
        let path = self.path(pci);
        let text = serde_json::to_vec(record)
            .map_err(|e| Error::Unreadable { object: path.display().to_string(), source: Box::new(e) })?;
        write_atomically(&path, &mut text.as_slice(), 0o600)
    }

    /// Forget one.
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
