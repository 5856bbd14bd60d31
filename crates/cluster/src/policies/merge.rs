//! Several policies for one device.

use super::SelectedNic;
use ferroband_api::sriov::{InterfaceSpec, SriovNetworkNodePolicy, VfGroup};
use kube::ResourceExt;
use std::collections::BTreeMap;

/// What the node's devices shall be like, by address. `claims` are what was chosen and not refused, in any order.
///
/// Policies are applied from the highest priority number to the lowest, those of one number by name: the last one wins.
/// What it does not touch of the others' stays.
pub fn merge(claims: &[(&SriovNetworkNodePolicy, SelectedNic<'_>)]) -> Vec<InterfaceSpec> {
    let mut ordered: Vec<_> = claims.iter().collect();
    ordered.sort_by_key(|(policy, chosen)| {
        let name = (policy.name_any(), policy.namespace().unwrap_or_default());
        (-policy.spec.priority(), name, chosen.nic.pci_address.clone())
    });
    let mut merged: BTreeMap<&str, (i64, InterfaceSpec)> = BTreeMap::new();
    for (policy, chosen) in ordered {
        let spec = &policy.spec;
        if spec.num_vfs <= 0 {
            continue;
        }
        let mine = chosen.effective_vf_range(spec);
        let mut now = InterfaceSpec {
            pci_address: chosen.nic.pci_address.clone(),
            num_vfs: Some(spec.num_vfs),
            mtu: spec.mtu,
            name: chosen.nic.name.clone(),
            link_type: spec.requested_link_type().map(str::to_owned),
            e_switch_mode: spec.e_switch_mode.clone(),
            externally_managed: spec.externally_managed.filter(|external| *external),
            vf_groups: vec![VfGroup {
                resource_name: Some(spec.resource_name.clone()),
                device_type: Some(spec.driver().to_owned()),
                vf_range: Some(mine.to_string()),
                policy_name: Some(policy.name_any()),
                mtu: spec.mtu,
                is_rdma: Some(spec.uses_rdma()),
                vdpa_type: spec.vdpa_type.clone(),
                need_vhost_net: spec.need_vhost_net.filter(|need| *need),
                exclude_topology: spec.exclude_topology.filter(|exclude| *exclude),
            }],
        };
        if let Some((priority, before)) = merged.remove(chosen.nic.pci_address.as_str()) {
            let apart = |group: &VfGroup| {
                let theirs = group.vf_range.as_deref().and_then(super::VfRange::parse);
                theirs.is_some_and(|theirs| !theirs.overlaps(mine))
            };
            let kept: Vec<_> = before.vf_groups.into_iter().filter(apart).collect();
            if !kept.is_empty() || priority == spec.priority() {
                now.mtu = now.mtu.max(before.mtu);
                now.num_vfs = now.num_vfs.max(before.num_vfs);
            }
            now.vf_groups.extend(kept);
        }
        merged.insert(&chosen.nic.pci_address, (spec.priority(), now));
    }
    merged.into_values().map(|(_, spec)| spec).collect()
}
