//! The desired GUIDs of the virtual functions of this node.
//!
//! ```text
//! GUID file ──▶ GUID found at take-over ──▶ GuidSource
//! ```

use super::{
    AdapterOriginalState, DesiredAdapter, DesiredNodeConfig, DesiredVfGroup, GuidFile, GuidSource,
    ObservedAdapter, ObservedFunction, ObservedNode, PfIdentity,
};
use ferroband_model::{Fault, FaultCode, Guid, LinkLayer, PciAddress};
use std::{collections::BTreeMap, path::Path};

/// The desired GUIDs of one configuration pass. They are chosen before the comparison, because a GUID of the
/// administrator's range must be claimed at the API server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DesiredGuids {
    /// GUID of each function that needs one, or why it has none, by PCI address. A function that keeps its GUID is
    /// not listed.
    pub of_vfs: BTreeMap<PciAddress, Result<Guid, Fault>>,
    /// Why the GUID file cannot be read.
    pub file_fault: Option<Fault>,
}

/// Chooses the GUIDs of functions.
pub struct GuidChooser<'a> {
    file: Result<Option<GuidFile>, Fault>,
    source: Option<&'a dyn GuidSource>,
}

impl<'a> GuidChooser<'a> {
    /// Reads the GUID file at `path`, which need not exist. It is read in each pass, so a changed file takes effect
    /// without a restart. Without `source`, functions keep their GUIDs, and a function without one is a fault.
    pub fn read(path: &Path, source: Option<&'a dyn GuidSource>) -> Self {
        Self { file: GuidFile::read(path), source }
    }

    /// Chooses the GUIDs of all functions of the node that need one.
    pub fn choose(&self, desired: &DesiredNodeConfig, observed: &ObservedNode) -> DesiredGuids {
        let mut guids = DesiredGuids { file_fault: self.file.as_ref().err().cloned(), ..Default::default() };
        for adapter in &observed.adapters {
            if let Some(desired) = desired.adapters.get(&adapter.pci) {
                let original = observed.original_states.get(&adapter.pci);
                guids.of_vfs.extend(self.choose_for_adapter(desired, adapter, original).of_vfs);
            }
        }
        guids
    }

    /// Chooses the GUIDs of the functions of one adapter.
    pub fn choose_for_adapter(
        &self,
        desired: &DesiredAdapter,
        adapter: &ObservedAdapter,
        original: Option<&AdapterOriginalState>,
    ) -> DesiredGuids {
        let mut guids = DesiredGuids { file_fault: self.file.as_ref().err().cloned(), ..Default::default() };
        if adapter.error.is_some() || desired.link_layer.is_some_and(|link| Some(link) != adapter.link_layer)
        {
            return guids;
        }
        let pf = PfIdentity { pci: adapter.pci, guid: adapter.guid };
        let captured = AdapterOriginalState::capture(adapter, desired.externally_managed);
        let adopted = &original.unwrap_or(&captured).guids;
        for vf in &adapter.vfs {
            if desired.group_of(vf.index).is_some_and(|group| needs_guid(desired, adapter, vf, group)) {
                let guid = self.guid(pf, vf.index, adopted.get(&vf.index).copied(), vf.current_guid());
                guids.of_vfs.insert(vf.pci, guid);
            }
        }
        guids
    }

    /// Returns the desired GUID of a function. `adopted` is the GUID with which it was found at take-over, `current`
    /// the one that it has now. While the GUID file is invalid, functions keep their GUIDs.
    fn guid(
        &self,
        pf: PfIdentity,
        vf: u32,
        adopted: Option<Guid>,
        current: Option<Guid>,
    ) -> Result<Guid, Fault> {
        match (&self.file, self.source) {
            (Ok(None), Some(source)) => source.guid(pf, vf, adopted),
            (Ok(None), None) => adopted.or(current).ok_or_else(|| unassigned_fault(pf, vf)),
            (Ok(Some(file)), _) => file.guid(pf, vf).or_else(|fault| adopted.ok_or(fault)),
            (Err(fault), _) => current.ok_or_else(|| fault.clone()),
        }
    }
}

/// Whether the GUID of the function is compared with a desired one.
fn needs_guid(
    desired: &DesiredAdapter,
    adapter: &ObservedAdapter,
    vf: &ObservedFunction,
    group: &DesiredVfGroup,
) -> bool {
    let is_kept = vf.guid_requested || desired.externally_managed && vf.current_guid().is_some();
    !group.vfio && adapter.link_layer == Some(LinkLayer::InfiniBand) && vf.error.is_none() && !is_kept
}

fn unassigned_fault(pf: PfIdentity, vf: u32) -> Fault {
    Fault::new(
        FaultCode::ApiUnavailable,
        format!("virtual function {vf} of {}", pf.pci),
        "the function has no GUID, and a dry run assigns none",
        "no action needed; the node daemon assigns the GUID",
    )
}
