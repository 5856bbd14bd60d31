//! What was done to the machine for one sandbox, written down before it is done.
//!
//! ```text
//! Journal ── Entry (one interface) ── StepRecord (one plugin)   pending → intended → done → undone
//! ```
//!
//! A step that is `intended` may or may not have happened, in part or in full. Undoing takes it as done; all
//! undoing forgives what is not there.

use crate::plan::{Assigned, Attachment, Doer};
use crate::{Error, Invocation, Key, Role, record};
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
    pub role: Role,
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
    pub daemon: bool,
    /// Whether all steps were done.
    pub attached: bool,
    /// The attachments in order, with what became of them.
    pub entries: Vec<Entry>,
    /// The addresses that the daemon assigned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assigned: Vec<Assigned>,
}

/// One attachment and its steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// The RDMA device that it moves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rdma: Option<RdmaTrace>,
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
pub struct Trace {
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
pub struct RdmaTrace {
    /// Its name.
    pub device: String,
    /// The function it is on, or the name of the auxiliary device: what its lock is called by.
    pub on: String,
}

/// A journal in the folder.
#[derive(Debug)]
pub struct Found {
    /// The stem of its file, which tells its [`Key`] even if it cannot be read.
    pub stem: String,
    /// What it says.
    pub journal: Result<Journal, Error>,
}

impl Journal {
    /// The journal of an ADD that begins.
    pub fn begin(
        root: &Root,
        role: Role,
        call: &Invocation,
        netns: &Netns,
        pod: Option<PodRef>,
    ) -> Result<Self, Error> {
        Ok(Self {
            schema: SCHEMA,
            role,
            boot: boot_id(root)?,
            container: call.container.clone(),
            ifname: call.ifname.clone(),
            network: call.config.name()?.to_owned(),
            netns: call.netns.clone().unwrap_or_default(),
            netns_id: netns.id(),
            args: call.args.clone(),
            pod,
            daemon: false,
            attached: false,
            entries: Vec::new(),
            assigned: Vec::new(),
        })
    }

    /// Whose journal this is.
    pub fn key(&self) -> Key {
        Key::new(self.role, &self.container, &self.ifname)
    }

    /// The journal of `key`, if there is one. [`Error::Corrupt`] and [`Error::Schema`] mean that there is one
    /// which cannot be understood. The caller holds the key's lock.
    pub fn load(root: &Root, key: &Key) -> Result<Option<Self>, Error> {
        read(path(root, key))
    }

    /// All journals; for reading only, unless the lock of each is taken.
    pub fn all(root: &Root) -> Result<Vec<Found>, Error> {
        let mut found = Vec::new();
        let mut paths = record::list(&lasting(root))?;
        paths.extend(record::list(&passing(root))?);
        for path in paths {
            let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) else { continue };
            let stem = stem.to_owned();
            if let Some(journal) = read(path).transpose() {
                found.push(Found { stem, journal });
            }
        }
        Ok(found)
    }

    /// Write it down.
    pub fn save(&self, root: &Root) -> Result<(), Error> {
        record::write(&path(root, &self.key()), self)
    }

    /// Remove the journal of `key`.
    pub fn remove(root: &Root, key: &Key) -> Result<(), Error> {
        if passes(key) {
            // An earlier release had all of them where the lasting ones are.
            record::remove(&file(lasting(root), key))?;
        }
        record::remove(&path(root, key))
    }

    /// Add the attachments of a plan, nothing done yet.
    pub fn plan(&mut self, attachments: Vec<Attachment>) {
        self.entries = attachments
            .into_iter()
            .map(|attachment| Entry {
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
            let ours = record.trace.is_some() || matches!(step.by, Doer::IbSriov { .. });
            ours && record.state.is_open()
        })
    }
}

/// What is done with interfaces and devices, and what plugins of others hold, must be found after a reboot. Who only asked
/// for addresses has nothing that outlives its sandbox, and its journal is not on a disk: that is half of such a call.
fn passes(key: &Key) -> bool {
    key.role().is_some_and(Role::is_ipam)
}

fn path(root: &Root, key: &Key) -> PathBuf {
    file(if passes(key) { passing(root) } else { lasting(root) }, key)
}

fn file(folder: PathBuf, key: &Key) -> PathBuf {
    folder.join(format!("{}.json", key.stem()))
}

fn lasting(root: &Root) -> PathBuf {
    root.state("journal")
}

fn passing(root: &Root) -> PathBuf {
    root.run("ferroband/journal")
}

fn read(path: PathBuf) -> Result<Option<Journal>, Error> {
    let Some(journal) = record::read::<Journal>(&path)? else { return Ok(None) };
    if journal.schema > SCHEMA {
        return Err(Error::Schema { path, schema: journal.schema });
    }
    if journal.entries.iter().any(|entry| entry.steps.len() != entry.attachment.steps.len()) {
        return Err(Error::Inconsistent { path });
    }
    Ok(Some(journal))
}

#[cfg(test)]
mod tests;
