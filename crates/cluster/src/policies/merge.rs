//! Merges the policies that select the same adapter into one desired configuration.

use super::SelectedNic;
use ferroband_api::sriov::{InterfaceSpec, SriovNetworkNodePolicy, VfGroup};
use kube::ResourceExt;
use std::collections::BTreeMap;

/// Merges the accepted policies of a node into the desired configurations of its adapters, sorted by PCI
/// address. The order of `claims` does not matter.
///
/// Policies are applied from the highest priority number to the lowest, and by name within one number. The last policy
/// wins. VF groups of earlier policies are kept if they do not overlap with those of later ones.
pub fn merge(claims: &[(&SriovNetworkNodePolicy, SelectedNic<'_>)]) -> Vec<InterfaceSpec> {
    let mut ordered: Vec<_> = claims.iter().collect();
    ordered.sort_by_key(|(policy, selected)| {
        let name = (policy.name_any(), policy.namespace().unwrap_or_default());
        (-policy.spec.priority(), name, selected.nic.pci_address.clone())
    });
    let mut merged: BTreeMap<&str, (i64, InterfaceSpec)> = BTreeMap::new();
    for (policy, selected) in ordered {
        let spec = &policy.spec;
        if spec.num_vfs <= 0 {
            continue;
        }
        let range = selected.effective_vf_range(spec);
        let mut interface = InterfaceSpec {
            pci_address: selected.nic.pci_address.clone(),
            num_vfs: Some(spec.num_vfs),
            mtu: spec.mtu,
            name: selected.nic.name.clone(),
            link_type: spec.requested_link_type().map(str::to_owned),
            e_switch_mode: spec.e_switch_mode.clone(),
            externally_managed: spec.externally_managed.filter(|external| *external),
            vf_groups: vec![VfGroup {
                resource_name: Some(spec.resource_name.clone()),
                device_type: Some(spec.driver().to_owned()),
                vf_range: Some(range.to_string()),
                policy_name: Some(policy.name_any()),
                mtu: spec.mtu,
                is_rdma: Some(spec.uses_rdma()),
                vdpa_type: spec.vdpa_type.clone(),
                need_vhost_net: spec.need_vhost_net.filter(|need| *need),
                exclude_topology: spec.exclude_topology.filter(|exclude| *exclude),
            }],
        };
        if let Some((priority, previous)) = merged.remove(selected.nic.pci_address.as_str()) {
            let is_disjoint = |group: &VfGroup| {
                let other = group.vf_range.as_deref().and_then(super::VfRange::parse);
                other.is_some_and(|other| !other.overlaps(range))
            };
            let kept: Vec<_> = previous.vf_groups.into_iter().filter(is_disjoint).collect();
            if !kept.is_empty() || priority == spec.priority() {
                interface.mtu = interface.mtu.max(previous.mtu);
                interface.num_vfs = interface.num_vfs.max(previous.num_vfs);
            }
            interface.vf_groups.extend(kept);
        }
        merged.insert(&selected.nic.pci_address, (spec.priority(), interface));
    }
    merged.into_values().map(|(_, spec)| spec).collect()
}
