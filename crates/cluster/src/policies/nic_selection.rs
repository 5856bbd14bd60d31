//! Which of a node's devices a policy means.

use super::VfRange;
use ferroband_api::sriov::{InterfaceStatus, NicSelector, SriovNetworkNodePolicySpec};
use std::collections::BTreeMap;

/// A device that a policy means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SelectedNic<'a> {
    /// The device.
    pub nic: &'a InterfaceStatus,
    /// The functions meant, where the policy names some; else all.
    pub vf_range: Option<VfRange>,
    /// Whether the policy names the device: by `pfNames`.
    pub by_name: bool,
    /// Whether the policy names its address: in `rootDevices`.
    pub by_address: bool,
}

impl SelectedNic<'_> {
    /// The functions that it takes.
    pub fn effective_vf_range(&self, spec: &SriovNetworkNodePolicySpec) -> VfRange {
        self.vf_range.unwrap_or(VfRange::all(spec.num_vfs))
    }
}

/// The devices among `nics` that `selector` means, or why none is.
pub fn select_nics<'a>(
    selector: &NicSelector,
    nics: &'a [InterfaceStatus],
) -> Result<Vec<SelectedNic<'a>>, String> {
    let mut kept_out: BTreeMap<&'static str, usize> = BTreeMap::new();
    let mut chosen = Vec::new();
    for nic in nics {
        match match_nic(selector, nic) {
            Ok(one) => chosen.push(one),
            Err(field) => *kept_out.entry(field).or_default() += 1,
        }
    }
    if !chosen.is_empty() {
        return Ok(chosen);
    }
    let reasons: Vec<_> = kept_out.iter().map(|(field, count)| format!("{count} by {field}")).collect();
    let here: Vec<_> = nics.iter().map(describe_nic).collect();
    Err(format!("0 of {} match, kept out {}; there are {}", nics.len(), reasons.join(", "), here.join(", ")))
}

fn match_nic<'a>(selector: &NicSelector, nic: &'a InterfaceStatus) -> Result<SelectedNic<'a>, &'static str> {
    let same = |asked: &Option<String>, is: &Option<String>| match asked.as_deref() {
        None | Some("") => true,
        Some(asked) => is.as_deref().is_some_and(|is| is.eq_ignore_ascii_case(asked)),
    };
    if selector.is_empty() {
        return Err("being empty");
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
        return Err("having no SR-IOV (see the BIOS and SRIOV_EN of the firmware)");
    }
    let span = named.and_then(|(_, span)| span);
    Ok(SelectedNic { nic, vf_range: span, by_name: named.is_some(), by_address })
}

/// `openstack/NetworkID:<uuid>`: both parts equal, blanks around them do not count.
fn same_network(asked: &str, is: Option<&str>) -> bool {
    let parts = |text: &str| {
        let (kind, id) = text.split_once(':')?;
        Some((kind.trim().to_owned(), id.split_whitespace().next()?.to_owned()))
    };
    asked.is_empty() || parts(asked).is_some_and(|asked| is.and_then(parts) == Some(asked))
}

fn describe_nic(nic: &InterfaceStatus) -> String {
    let name = nic.name.as_deref().unwrap_or("no interface");
    let id = |part: &Option<String>| part.clone().unwrap_or_else(|| "?".to_owned());
    format!("{name} ({}:{} at {})", id(&nic.vendor), id(&nic.device_id), nic.pci_address)
}
