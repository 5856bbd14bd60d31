//! What was done to the machine for one sandbox, written down before it is done.
//!
//! ```text
//! Journal ── Entry (one interface) ── StepRecord (one plugin)   pending → intended → done → undone
//! ```
//!
//! A step that is `intended` may or may not have happened, in part or in full. Undoing takes it as done; all
//! undoing forgives what is not there.

#![warn(missing_docs)]

use crate::plan::{AssignedAddresses, Attachment, StepKind};
use crate::{AttachmentId, Error, Invocation, PluginType, record};
use ferroband_kernel::{Netns, NetnsId, Root, boot_id};
use ferroband_model::PodRef;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;

/// The schema that we write, and the newest that we read.
pub const SCHEMA: u32 = 1;

/// All that a DEL has to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Journal {
    /// [`SCHEMA`].
    pub schema: u32,
    /// As what we were called.
    #[serde(rename = "role")]
    pub plugin_type: PluginType,
    /// The kernel's boot identifier: after a reboot no namespace and no interface of before exists.
    pub boot: String,
    /// `CNI_CONTAINERID`.
    pub container: String,
    /// `CNI_IFNAME`.
    pub ifname: String,
    /// The name of the network in the configuration we were called with.
    pub network: String,
    /// `CNI_NETNS`.
    pub netns: String,
    /// Which namespace that was.
    pub netns_id: NetnsId,
    /// `CNI_ARGS`, which foreign plugins see again when garbage is collected.
    pub args: String,
    /// The pod, when the runtime named one.
    pub pod: Option<PodRef>,
    /// Whether the daemon may hold something for this sandbox.
    #[serde(rename = "daemon")]
    pub needs_release: bool,
    /// Whether all steps were done.
    pub attached: bool,
    /// The attachments in order, with what became of them.
    pub entries: Vec<JournalEntry>,
    /// The addresses that the daemon assigned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assigned: Vec<AssignedAddresses>,
}

/// One attachment and its steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// As it was planned.
    pub attachment: Attachment,
    /// One for each of its steps.
    pub steps: Vec<StepRecord>,
    /// The result of the last step that was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
}

/// What became of one step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// The step itself.
    #[serde(default)]
    pub state: StepState,
    /// The IPAM plugin that it delegates to, if it does.
    #[serde(default)]
    pub ipam: StepState,
    /// How to find the interface that it makes.
    #[serde(rename = "trace", default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<InterfaceIdentity>,
    /// The RDMA device that it moves.
    #[serde(rename = "rdma", default, skip_serializing_if = "Option::is_none")]
    pub rdma_device: Option<MovedRdmaDevice>,
}

/// How far a step is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepState {
    /// Nothing was done.
    #[default]
    Pending,
    /// It was about to be done, or half of it was.
    Intended,
    /// It was done.
    Done,
    /// It was done and undone.
    Undone,
}

impl StepState {
    /// Whether there is something to undo.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Intended | Self::Done)
    }
}

/// How to recognize an interface that we made, wherever it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceIdentity {
    /// Its name until it has its final one.
    pub temporary: String,
    /// Its kind, once it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The hardware addresses it has had: on IPoIB they contain the queue pair's number, which no two have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
}

/// An RDMA device that a step moved into the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MovedRdmaDevice {
    /// Its name.
    pub device: String,
    /// The function it is on, or the name of the auxiliary device: what its lock is called by.
    #[serde(rename = "on")]
    pub parent: String,
}

/// A journal in the folder.
#[derive(Debug)]
pub struct JournalFile {
    /// The stem of its file, which tells its [`Key`] even if it cannot be read.
    pub stem: String,
    /// What it says.
    pub journal: Result<Journal, Error>,
}

impl Journal {
    /// The journal of an ADD that begins.
    pub fn begin(
        root: &Root,
        role: PluginType,
        call: &Invocation,
        netns: &Netns,
        pod: Option<PodRef>,
    ) -> Result<Self, Error> {
        Ok(Self {
            schema: SCHEMA,
            plugin_type: role,
            boot: boot_id(root)?,
            container: call.container.clone(),
            ifname: call.ifname.clone(),
            network: call.config.name()?.to_owned(),
            netns: call.netns.clone().unwrap_or_default(),
            netns_id: netns.id(),
            args: call.args.clone(),
            pod,
            needs_release: false,
            attached: false,
            entries: Vec::new(),
            assigned: Vec::new(),
        })
    }

    /// Whose journal this is.
    pub fn id(&self) -> AttachmentId {
        AttachmentId::new(self.plugin_type, &self.container, &self.ifname)
    }

    /// The journal of `key`, if there is one. [`Error::Corrupt`] and [`Error::Schema`] mean that there is one
    /// which cannot be understood. The caller holds the key's lock.
    pub fn load(root: &Root, key: &AttachmentId) -> Result<Option<Self>, Error> {
        read(path(root, key))
    }

    /// All journals; for reading only, unless the lock of each is taken.
    pub fn list(root: &Root) -> Result<Vec<JournalFile>, Error> {
        let mut found = Vec::new();
        let mut paths = record::list(&persistent_dir(root))?;
        paths.extend(record::list(&volatile_dir(root))?);
        for path in paths {
            let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) else { continue };
            let stem = stem.to_owned();
            if let Some(journal) = read(path).transpose() {
                found.push(JournalFile { stem, journal });
            }
        }
        Ok(found)
    }

    /// Write it down.
    pub fn save(&self, root: &Root) -> Result<(), Error> {
        record::write(&path(root, &self.id()), self)
    }

    /// Remove the journal of `key`.
    pub fn remove(root: &Root, key: &AttachmentId) -> Result<(), Error> {
        if is_volatile(key) {
            // An earlier release had all of them where the lasting ones are.
            record::remove(&file(persistent_dir(root), key))?;
        }
        record::remove(&path(root, key))
    }

    /// Add the attachments of a plan, nothing done yet.
    pub fn set_plan(&mut self, attachments: Vec<Attachment>) {
        self.entries = attachments
            .into_iter()
            .map(|attachment| JournalEntry {
                steps: vec![StepRecord::default(); attachment.steps.len()],
                attachment,
                result: None,
            })
            .collect();
    }

    /// Whether every interface that we made ourselves is gone, so that its addresses may be given to others.
    pub fn interfaces_gone(&self) -> bool {
        let mut steps = self.entries.iter().flat_map(|entry| entry.steps.iter().zip(&entry.attachment.steps));
        !steps.any(|(record, step)| {
            let ours = record.interface.is_some() || matches!(step.kind, StepKind::IbSriov { .. });
            ours && record.state.is_open()
        })
    }
}

/// What is done with interfaces and devices, and what plugins of others hold, must be found after a reboot. Who only asked
/// for addresses has nothing that outlives its sandbox, and its journal is not on a disk: that is half of such a call.
fn is_volatile(key: &AttachmentId) -> bool {
    key.plugin_type().is_some_and(PluginType::is_ipam)
}

fn path(root: &Root, key: &AttachmentId) -> PathBuf {
    file(if is_volatile(key) { volatile_dir(root) } else { persistent_dir(root) }, key)
}

fn file(folder: PathBuf, key: &AttachmentId) -> PathBuf {
    folder.join(format!("{}.json", key.file_stem()))
}

fn persistent_dir(root: &Root) -> PathBuf {
    root.state("journal")
}

fn volatile_dir(root: &Root) -> PathBuf {
    root.run("ferroband/journal")
}

fn read(path: PathBuf) -> Result<Option<Journal>, Error> {
    let Some(journal) = record::read::<Journal>(&path)? else { return Ok(None) };
    if journal.schema > SCHEMA {
        return Err(Error::UnknownSchema { path, schema: journal.schema });
    }
    if journal.entries.iter().any(|entry| entry.steps.len() != entry.attachment.steps.len()) {
        return Err(Error::Inconsistent { path });
    }
    Ok(Some(journal))
}

#[cfg(test)]
mod tests;
