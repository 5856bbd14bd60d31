//! The functions that may be given out now, as pools.

use super::{
    GuidSource, ObservedNode,
    due::is_vf_ready,
    want::{DesiredNodeConfig, DesiredVfGroup},
};
use crate::{
    discover::DeviceClass,
    pools::{DevicePool, DevicePoolKind, DeviceSelector, FunctionPool},
};
use ferroband_model::{PciAddress, ResourceName};
use std::collections::{BTreeMap, BTreeSet};

/// The pools of what is wanted and right. What is about to be touched is in none: nobody new shall get it.
pub fn ready_pools(
    wanted: &DesiredNodeConfig,
    survey: &ObservedNode,
    guids: &dyn GuidSource,
    touched: &BTreeSet<PciAddress>,
    prefix: &str,
) -> Vec<DevicePool> {
    let mut pools: BTreeMap<String, DevicePool> = BTreeMap::new();
    for adapter in &survey.adapters {
        let Some(want) = wanted.adapters.get(&adapter.pci) else { continue };
        for group in &want.groups {
            let right = |vf: &&super::ObservedFunction| {
                group.vf_range.contains(&vf.index)
                    && !touched.contains(&vf.pci)
                    && is_vf_ready(want, adapter, vf, group, guids)
            };
            let addresses: Vec<String> =
                adapter.vfs.iter().filter(right).map(|vf| vf.pci.to_string()).collect();
            let Ok(resource) = ResourceName::new(prefix, &group.resource) else { continue };
            let pool = pools.entry(group.resource.clone()).or_insert_with(|| empty_pool(resource, group));
            if let DevicePoolKind::Functions(functions) = &mut pool.kind
                && !addresses.is_empty()
            {
                functions.exclude_topology |= group.exclude_topology;
                functions.selectors.push(selector(group, addresses));
            }
        }
    }
    // A pool without selectors would take everything.
    let some = |pool: &DevicePool| matches!(&pool.kind, DevicePoolKind::Functions(functions) if !functions.selectors.is_empty());
    pools.into_values().filter(some).collect()
}

fn empty_pool(resource: ResourceName, group: &DesiredVfGroup) -> DevicePool {
    let functions = FunctionPool { class: DeviceClass::Network, ..FunctionPool::default() };
    DevicePool {
        resource,
        file: format!("policy {}", group.policy),
        field: "spec".to_owned(),
        kind: DevicePoolKind::Functions(functions),
        management_files: false,
    }
}

fn selector(group: &DesiredVfGroup, addresses: Vec<String>) -> DeviceSelector {
    DeviceSelector {
        pci_addresses: addresses,
        rdma: group.rdma && !group.vfio,
        vhost_net: group.vhost_net,
        ..DeviceSelector::default()
    }
}
