//! Leases of virtual functions: the owner of each function and its original state.

use crate::protocol::Error;
use crate::state::journal::Journal;
use crate::state::{Lock, state_file};
use ferroband_kernel::rtnetlink::VfLinkState;
use ferroband_kernel::{Netns, NetnsId, Root, boot_id};
use ferroband_model::{Guid, PciAddress};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// The sandbox that a function is attached to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VfOwner {
    /// File stem of the sandbox's journal.
    pub(crate) stem: String,
    /// `CNI_CONTAINERID`.
    pub(crate) container: String,
    /// Name of the function's interface in the pod.
    pub(crate) ifname: String,
    /// Boot ID at the time of the ADD.
    pub(crate) boot: String,
    /// `CNI_NETNS`.
    pub(crate) netns: String,
    /// Identity of the namespace at `netns` during the ADD.
    pub(crate) netns_id: NetnsId,
}

impl VfOwner {
    /// The owner for the attachment `ifname` of `journal`.
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

    /// The owner's network namespace, if it still exists.
    pub(crate) fn netns(&self, root: &Root) -> Result<Option<Netns>, Error> {
        if self.boot != boot_id(root)? {
            return Ok(None);
        }
        Ok(Netns::open(&self.netns).ok().filter(|netns| netns.id() == self.netns_id))
    }

    /// Whether the owner's network namespace still exists.
    pub(crate) fn is_alive(&self, root: &Root) -> Result<bool, Error> {
        Ok(self.netns(root)?.is_some())
    }
}

/// Lease of a function that is attached to a sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VfLease {
    pub(crate) function: PciAddress,
    pub(crate) owner: VfOwner,
    /// State of the function before it was attached. Teardown restores it.
    #[serde(rename = "before")]
    pub(crate) saved: SavedVfState,
    /// GUID set by the setup; absent if no GUID was requested or the function already had it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) guid: Option<Guid>,
    /// Whether the setup changed the link state, so that teardown must restore it.
    #[serde(rename = "state", default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) link_state_set: bool,
    /// Original name of the RDMA device that was moved into the sandbox; absent if none was moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rdma: Option<String>,
    /// Whether the function is bound to vfio-pci and so has no interface.
    #[serde(rename = "vfio", default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) vfio_bound: bool,
}

/// State of a function before it was attached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SavedVfState {
    /// Interface name; empty if the function had no driver.
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) altnames: Vec<String>,
    #[serde(default)]
    pub(crate) mtu: Option<u32>,
    #[serde(default)]
    pub(crate) up: bool,
    /// Node GUID, port GUID and link state that the physical function had set for this VF. Saved only if the
    /// step requests a GUID or a link state.
    #[serde(default)]
    pub(crate) node_guid: Option<Guid>,
    #[serde(default)]
    pub(crate) port_guid: Option<Guid>,
    #[serde(default)]
    pub(crate) state: Option<VfLinkState>,
}

impl VfLease {
    /// Load the lease of `function`, if any. A damaged lease counts as absent.
    pub(crate) fn load(root: &Root, function: PciAddress) -> Result<Option<Self>, Error> {
        match state_file::read(&path(root, function)) {
            Err(error) if error.is_damaged_state() => {
                eprintln!("ferroband: {error}; ignoring this lease of a virtual function");
                Ok(None)
            }
            other => other,
        }
    }

    /// List all leases on this node, except damaged ones.
    pub(crate) fn list(root: &Root) -> Result<Vec<Self>, Error> {
        let functions = state_file::list(&root.state("device"))?;
        let address = |path: &PathBuf| path.file_stem()?.to_str()?.parse::<PciAddress>().ok();
        let leases = functions.iter().filter_map(address).map(|function| Self::load(root, function));
        Ok(leases.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    /// Save the lease. The caller holds the function's lock.
    pub(crate) fn save(&self, root: &Root) -> Result<(), Error> {
        state_file::write(&path(root, self.function), self)
    }

    /// Remove the lease. The caller holds the function's lock.
    pub(crate) fn remove(&self, root: &Root) -> Result<(), Error> {
        state_file::remove(&path(root, self.function))
    }
}

/// Lock a function, so that only one call at a time changes it. Child processes of a killed call keep the
/// lock until they exit.
pub(crate) fn lock_function(root: &Root, function: PciAddress, timeout: Duration) -> Result<Lock, Error> {
    Lock::acquire_stem(root, &format!("device:{function}"), timeout)
}

fn path(root: &Root, function: PciAddress) -> PathBuf {
    root.state("device").join(format!("{function}.json"))
}
