//! Write-ahead journal of the changes made to the node for one sandbox.
//!
//! ```text
//! Journal ── JournalEntry (one interface) ── StepRecord (one plugin)   pending → intended → done → undone
//! ```
//!
//! A step that is `intended` may have happened in part, in full or not at all. Teardown treats it as done, and ignores
//! whatever does not exist.

#![warn(missing_docs)]

use crate::ipc::message::AttachmentOutcome;
use crate::ipc::plan::{AssignedAddresses, Attachment, StepKind};
use crate::protocol::{AttachmentId, CniResult, CniVersion, Error, Invocation, PluginType};
use crate::state::{device_info, state_file};
use ferroband_kernel::{Netns, NetnsId, Root, boot_id};
use ferroband_model::PodRef;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;

mod salvage;

/// The schema version that is written, and the newest that can be read.
///
/// A newer schema must keep the names `entries`, `attachment`, `steps` and `config`: after a rollback, an older release
/// reads them to call DEL of foreign plugins.
pub const SCHEMA: u32 = 1;

/// Everything that DEL needs to undo an ADD.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Journal {
    /// Schema version of the file; [`SCHEMA`] in a new journal.
    pub schema: u32,
    /// The plugin that ran the ADD.
    #[serde(rename = "role")]
    pub plugin_type: PluginType,
    /// The kernel's boot ID during the ADD. Namespaces and interfaces of an earlier boot no longer exist.
    pub boot: String,
    /// `CNI_CONTAINERID`.
    pub container: String,
    /// `CNI_IFNAME`.
    pub ifname: String,
    /// Network name of the configuration on standard input.
    pub network: String,
    /// `CNI_NETNS`.
    pub netns: String,
    /// Identity of the namespace at `netns` during the ADD. The path may lead to another namespace later.
    pub netns_id: NetnsId,
    /// `CNI_ARGS`, passed to foreign plugins again during GC.
    pub args: String,
    /// The pod, if the runtime named one.
    pub pod: Option<PodRef>,
    /// Whether the daemon may hold addresses for this sandbox, which DEL must release.
    #[serde(rename = "daemon")]
    pub needs_release: bool,
    /// Whether all steps are done.
    pub attached: bool,
    /// The attachments in order, with their state.
    pub entries: Vec<JournalEntry>,
    /// Addresses assigned by the daemon; empty until they are received.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assigned: Vec<AssignedAddresses>,
}

/// One attachment, the progress of its steps and its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// The attachment, from the daemon's plan or from the configuration of a plugin called on its own.
    pub attachment: Attachment,
    /// One record per step of `attachment`, in the same order.
    pub steps: Vec<StepRecord>,
    /// Result of the last completed step, in the format of the newest CNI version. Absent before the first
    /// step completes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
}

impl JournalEntry {
    /// The result of the last completed step. Returns an empty result if no step has one yet.
    pub(crate) fn cni_result(&self) -> Result<CniResult, Error> {
        self.result
            .as_ref()
            .map_or_else(|| Ok(CniResult::default()), |result| CniResult::read(result, CniVersion::NEWEST))
    }
}

/// Progress of one step, and the interface or device that it creates or moves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Progress of the step itself.
    #[serde(default)]
    pub state: StepState,
    /// Progress of the IPAM plugin that the step delegates to; `Pending` if there is none.
    #[serde(default)]
    pub ipam: StepState,
    /// The interface that the step creates; absent if it creates none.
    #[serde(rename = "trace", default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<InterfaceIdentity>,
    /// The RDMA device that the step moves; absent if it moves none.
    #[serde(rename = "rdma", default, skip_serializing_if = "Option::is_none")]
    pub rdma_device: Option<MovedRdmaDevice>,
}

/// How far a step, or the IPAM plugin of a step, has progressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepState {
    /// The step has not started, so there is nothing to undo.
    #[default]
    Pending,
    /// The step was about to start. It may have happened in part, in full or not at all.
    Intended,
    /// The step completed. DEL must undo it.
    Done,
    /// The step was undone, so nothing of it is left.
    Undone,
}

impl StepState {
    /// Whether there may be something to undo.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Intended | Self::Done)
    }
}

/// Identifies an interface that Ferroband created, whatever namespace it is in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceIdentity {
    /// Name of the interface until it gets its final name. For a veth pair, the name of the node's end.
    pub temporary: String,
    /// Link kind as reported by rtnetlink; absent until the interface exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Hardware addresses that the interface has had. Those of IPoIB contain the queue pair number, which is
    /// unique.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
}

/// An RDMA device that a step moves into the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MovedRdmaDevice {
    /// Name of the RDMA device on the host before the move.
    pub device: String,
    /// PCI address of the device's function, or name of its auxiliary device. The device's lock is named
    /// after it.
    #[serde(rename = "on")]
    pub parent: String,
}

/// A journal file on disk, readable or not.
#[derive(Debug)]
pub struct JournalFile {
    /// File name without extension. It is the file stem of the [`AttachmentId`], known even if the file
    /// cannot be read.
    pub stem: String,
    /// The parsed journal, or why it could not be read.
    pub journal: Result<Journal, Error>,
}

impl Journal {
    /// Create the journal of an ADD, without attachments. Nothing is written yet.
    pub fn begin(
        root: &Root,
        plugin_type: PluginType,
        call: &Invocation,
        netns: &Netns,
        pod: Option<PodRef>,
    ) -> Result<Self, Error> {
        Ok(Self {
            schema: SCHEMA,
            plugin_type,
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

    /// The attachment that the journal belongs to.
    pub fn id(&self) -> AttachmentId {
        AttachmentId::new(self.plugin_type, &self.container, &self.ifname)
    }

    /// Load the journal of `id`, if it exists. [`Error::CorruptFile`] and [`Error::UnknownSchema`] mean that it
    /// exists but cannot be read. The caller holds the attachment's lock.
    pub fn load(root: &Root, id: &AttachmentId) -> Result<Option<Self>, Error> {
        read(path(root, id))
    }

    /// List all journals without locking them. A caller that changes one must take its lock first.
    pub fn list(root: &Root) -> Result<Vec<JournalFile>, Error> {
        let mut found = Vec::new();
        let mut paths = state_file::list(&persistent_dir(root))?;
        paths.extend(state_file::list(&volatile_dir(root))?);
        for path in paths {
            let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) else { continue };
            let stem = stem.to_owned();
            if let Some(journal) = read(path).transpose() {
                found.push(JournalFile { stem, journal });
            }
        }
        Ok(found)
    }

    /// Write the journal to disk atomically. The caller holds the attachment's lock.
    pub fn save(&self, root: &Root) -> Result<(), Error> {
        state_file::write(&path(root, &self.id()), self)
    }

    /// Remove the journal of `id`, if it exists. The caller holds the attachment's lock.
    pub fn remove(root: &Root, id: &AttachmentId) -> Result<(), Error> {
        if is_volatile(id) {
            // An earlier release kept all journals in the persistent directory.
            state_file::remove(&file(persistent_dir(root), id))?;
        }
        state_file::remove(&path(root, id))
    }

    /// Add the attachments of a plan, with all steps pending.
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

    /// Results and device information of all attachments, for the pod's `network-status`.
    pub(crate) fn outcomes(&self, root: &Root) -> Result<Vec<AttachmentOutcome>, Error> {
        let outcome = |(attachment, entry): (usize, &JournalEntry)| {
            Ok(AttachmentOutcome {
                attachment,
                result: entry.cni_result()?.write(CniVersion::NEWEST)?,
                device_info: device_info::read(root, &self.container, &entry.attachment),
            })
        };
        self.entries.iter().enumerate().map(outcome).collect()
    }

    /// Whether the sandbox has only the network that Ferroband wraps, whose configuration has the same name. Then the
    /// runtime can delete the sandbox without Ferroband.
    pub fn is_wrapped_only(&self) -> bool {
        let [JournalEntry { attachment, .. }] = self.entries.as_slice() else { return false };
        self.plugin_type.is_meta()
            && attachment.default
            && attachment.network == self.network
            && attachment.steps.iter().all(|step| step.kind == StepKind::Foreign)
    }

    /// Whether every interface created by Ferroband is gone, so that its addresses may be reused.
    pub fn interfaces_gone(&self) -> bool {
        let mut steps = self.entries.iter().flat_map(|entry| entry.steps.iter().zip(&entry.attachment.steps));
        !steps.any(|(record, step)| {
            let is_own = record.interface.is_some() || matches!(step.kind, StepKind::IbSriov { .. });
            is_own && record.state.is_open()
        })
    }
}

/// Whether the journal is on tmpfs. An IPAM-only call leaves nothing that outlives its sandbox, so its
/// journal need not survive a reboot, and tmpfs saves half of the call's time. All other journals must
/// survive, because interfaces, devices and leases of foreign plugins must be found after a reboot.
fn is_volatile(id: &AttachmentId) -> bool {
    id.plugin_type().is_some_and(PluginType::is_ipam)
}

fn path(root: &Root, id: &AttachmentId) -> PathBuf {
    file(if is_volatile(id) { volatile_dir(root) } else { persistent_dir(root) }, id)
}

fn file(folder: PathBuf, id: &AttachmentId) -> PathBuf {
    folder.join(format!("{}.json", id.file_stem()))
}

fn persistent_dir(root: &Root) -> PathBuf {
    root.state("journal")
}

fn volatile_dir(root: &Root) -> PathBuf {
    root.run("ferroband/journal")
}

fn read(path: PathBuf) -> Result<Option<Journal>, Error> {
    let Some(journal) = state_file::read::<Journal>(&path)? else { return Ok(None) };
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
