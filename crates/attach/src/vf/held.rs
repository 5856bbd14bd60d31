//! Whose a function is, and what it was like before.

use crate::journal::Journal;
use crate::{Error, Lock, record};
use ferroband_kernel::rtnetlink::VfLinkState;
use ferroband_kernel::{Netns, NetnsId, Root, boot_id};
use ferroband_model::{Guid, PciAddress};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// Who has a function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VfOwner {
    /// The stem of the journal that says what becomes of it.
    pub(crate) stem: String,
    /// `CNI_CONTAINERID`.
    pub(crate) container: String,
    /// The interface in the pod.
    pub(crate) ifname: String,
    /// The boot in which it was given.
    pub(crate) boot: String,
    /// `CNI_NETNS`.
    pub(crate) netns: String,
    /// Which namespace that was.
    pub(crate) netns_id: NetnsId,
}

impl VfOwner {
    /// The owner that `journal` is about.
    pub(crate) fn from_journal(journal: &Journal, ifname: &str) -> Self {
        Self {
            stem: journal.id().file_stem(),
            container: journal.container.clone(),
            ifname: ifname.to_owned(),
            boot: journal.boot.clone(),
            netns: journal.netns.clone(),
            netns_id: journal.netns_id,
        }
    }

    /// Its namespace, if it is still there.
    pub(crate) fn netns(&self, root: &Root) -> Result<Option<Netns>, Error> {
        if self.boot != boot_id(root)? {
            return Ok(None);
        }
        Ok(Netns::open(&self.netns).ok().filter(|netns| netns.id() == self.netns_id))
    }

    /// Whether its namespace is still there.
    pub(crate) fn is_alive(&self, root: &Root) -> Result<bool, Error> {
        Ok(self.netns(root)?.is_some())
    }
}

/// A function that somebody has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VfLease {
    pub(crate) function: PciAddress,
    pub(crate) owner: VfOwner,
    /// What it was like before.
    #[serde(rename = "before")]
    pub(crate) saved: SavedVfState,
    /// The GUID that it was given in place of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) guid: Option<Guid>,
    /// Whether its link state was set.
    #[serde(rename = "state", default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) link_state_set: bool,
    /// The RDMA device that went to the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rdma: Option<String>,
    /// Whether it is vfio-pci's, and so has no interface.
    #[serde(rename = "vfio", default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) vfio_bound: bool,
}

/// What a function was like before it was given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SavedVfState {
    /// The name of its interface.
    #[serde(default)]
    pub(crate) name: String,
    /// Its other names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) altnames: Vec<String>,
    /// Its MTU.
    #[serde(default)]
    pub(crate) mtu: Option<u32>,
    /// Whether it was up.
    #[serde(default)]
    pub(crate) up: bool,
    /// The GUIDs and the link state that its adapter had for it, if they are changed.
    #[serde(default)]
    pub(crate) node_guid: Option<Guid>,
    #[serde(default)]
    pub(crate) port_guid: Option<Guid>,
    #[serde(default)]
    pub(crate) state: Option<VfLinkState>,
}

impl VfLease {
    /// Who has `function`, if anybody does. A record that cannot be understood says nothing.
    pub(crate) fn load(root: &Root, function: PciAddress) -> Result<Option<Self>, Error> {
        match record::read(&path(root, function)) {
            Err(error) if error.is_damaged_state() => {
                eprintln!("ferroband: {error}; taking the function as it is");
                Ok(None)
            }
            other => other,
        }
    }

    /// All functions that somebody has.
    pub(crate) fn list(root: &Root) -> Result<Vec<Self>, Error> {
        let functions = record::list(&root.state("device"))?;
        let address = |path: &PathBuf| path.file_stem()?.to_str()?.parse::<PciAddress>().ok();
        let held = functions.iter().filter_map(address).map(|function| Self::load(root, function));
        Ok(held.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    /// Write it down. The caller holds the function's lock.
    pub(crate) fn save(&self, root: &Root) -> Result<(), Error> {
        record::write(&path(root, self.function), self)
    }

    /// Nobody has it any more. The caller holds the function's lock.
    pub(crate) fn remove(&self, root: &Root) -> Result<(), Error> {
        record::remove(&path(root, self.function))
    }
}

/// The lock of a function: one call at a time changes it, and who was killed in the middle is waited for.
pub(crate) fn lock_function(root: &Root, function: PciAddress, patience: Duration) -> Result<Lock, Error> {
    Lock::acquire_stem(root, &format!("device:{function}"), patience)
}

fn path(root: &Root, function: PciAddress) -> PathBuf {
    root.state("device").join(format!("{function}.json"))
}
