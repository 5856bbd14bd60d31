//! Selects the adapters of a node that a policy applies to.

use super::VfRange;
use ferroband_api::sriov::{InterfaceStatus, NicSelector, SriovNetworkNodePolicySpec};
use std::collections::BTreeMap;

/// An adapter that a policy selects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SelectedNic<'a> {
    pub nic: &'a InterfaceStatus,
    /// VF range in the policy's `pfNames`; absent if the policy applies to all VFs.
    pub vf_range: Option<VfRange>,
    /// Whether `pfNames` selects the adapter.
    pub by_name: bool,
    /// Whether `rootDevices` selects the adapter.
    pub by_address: bool,
}

impl SelectedNic<'_> {
    /// Returns the VFs that the policy configures: the range in `pfNames`, or else all `numVfs`.
    pub fn effective_vf_range(&self, spec: &SriovNetworkNodePolicySpec) -> VfRange {
        self.vf_range.unwrap_or(VfRange::all(spec.num_vfs))
    }
}

/// Returns the adapters in `nics` that `selector` matches, or a message that says why none matches.
pub fn select_nics<'a>(
    selector: &NicSelector,
    nics: &'a [InterfaceStatus],
) -> Result<Vec<SelectedNic<'a>>, String> {
    let mut excluded: BTreeMap<&'static str, usize> = BTreeMap::new();
    let mut selected = Vec::new();
    for nic in nics {
        match match_nic(selector, nic) {
            Ok(matched) => selected.push(matched),
            Err(field) => *excluded.entry(field).or_default() += 1,
        }
    }
    if !selected.is_empty() {
        return Ok(selected);
    }
    let reasons: Vec<_> = excluded.iter().map(|(field, count)| format!("{count} by {field}")).collect();
    let present: Vec<_> = nics.iter().map(describe_nic).collect();
    Err(format!(
        "0 of {} adapters match; excluded: {}; present: {}",
        nics.len(),
        reasons.join(", "),
        present.join(", ")
    ))
}

fn match_nic<'a>(selector: &NicSelector, nic: &'a InterfaceStatus) -> Result<SelectedNic<'a>, &'static str> {
    let same = |expected: &Option<String>, actual: &Option<String>| match expected.as_deref() {
        None | Some("") => true,
        Some(expected) => actual.as_deref().is_some_and(|actual| actual.eq_ignore_ascii_case(expected)),
    };
    if selector.is_empty() {
        return Err("an empty selector");
    }
    if !same(&selector.vendor, &nic.vendor) {
        return Err("vendor");
    }
    if !same(&selector.device_id, &nic.device_id) {
        return Err("deviceID");
    }
    let by_address = selector.root_devices.iter().any(|root| root.eq_ignore_ascii_case(&nic.pci_address));
    if !selector.root_devices.is_empty() && !by_address {
        return Err("rootDevices");
    }
    let mut names = selector.pf_names.iter().filter_map(|text| VfRange::parse_pf_name(text));
    let named =
        names.find(|(name, _)| nic.name.as_deref() == Some(name) || nic.alt_names.iter().any(|n| n == name));
    if !selector.pf_names.is_empty() && named.is_none() {
        return Err("pfNames");
    }
    if selector.net_filter.as_deref().is_some_and(|filter| !same_network(filter, nic.net_filter.as_deref())) {
        return Err("netFilter");
    }
    if nic.total_vfs.unwrap_or_default() == 0 && nic.num_vfs.unwrap_or_default() == 0 {
        return Err("missing SR-IOV (check the BIOS and the firmware's SRIOV_EN)");
    }
    let vf_range = named.and_then(|(_, vf_range)| vf_range);
    Ok(SelectedNic { nic, vf_range, by_name: named.is_some(), by_address })
}

/// Compares two network filters of the form `openstack/NetworkID:<uuid>`. Blanks around the two parts are ignored. An
/// empty `expected` matches everything.
fn same_network(expected: &str, actual: Option<&str>) -> bool {
    let parts = |text: &str| {
        let (kind, id) = text.split_once(':')?;
        Some((kind.trim().to_owned(), id.split_whitespace().next()?.to_owned()))
    };
    expected.is_empty() || parts(expected).is_some_and(|expected| actual.and_then(parts) == Some(expected))
}

fn describe_nic(nic: &InterfaceStatus) -> String {
    let name = nic.name.as_deref().unwrap_or("no interface");
    let id = |part: &Option<String>| part.clone().unwrap_or_else(|| "?".to_owned());
    format!("{name} ({}:{} at {})", id(&nic.vendor), id(&nic.device_id), nic.pci_address)
}
