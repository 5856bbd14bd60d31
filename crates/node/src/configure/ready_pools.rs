//! Builds the device pools of SR-IOV policies from the virtual functions that are ready.

use super::{DesiredNodeConfig, DesiredVfGroup, ObservedNode};
use crate::{
    discover::DeviceClass,
    pools::{DevicePool, DevicePoolKind, DeviceSelector, FunctionPool},
};
use ferroband_model::{PciAddress, ResourceName};
use std::collections::{BTreeMap, BTreeSet};

/// Builds one pool per resource from the functions in `ready_vfs`. Other functions are left out, so that no new pod
/// gets a function that is about to change.
pub fn ready_pools(
    desired: &DesiredNodeConfig,
    observed: &ObservedNode,
    ready_vfs: &BTreeSet<PciAddress>,
    prefix: &str,
) -> Vec<DevicePool> {
    let mut pools: BTreeMap<String, DevicePool> = BTreeMap::new();
    for adapter in &observed.adapters {
        let Some(desired_adapter) = desired.adapters.get(&adapter.pci) else { continue };
        for group in &desired_adapter.groups {
            let is_ready = |vf: &&super::ObservedFunction| {
                group.vf_range.contains(&vf.index) && ready_vfs.contains(&vf.pci)
            };
            let addresses: Vec<String> =
                adapter.vfs.iter().filter(is_ready).map(|vf| vf.pci.to_string()).collect();
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
    // Drop pools without functions: a pool without selectors would select every device.
    let has_selectors = |pool: &DevicePool| match &pool.kind {
        DevicePoolKind::Functions(functions) => !functions.selectors.is_empty(),
        _ => false,
    };
    pools.into_values().filter(has_selectors).collect()
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

/// PCI addresses of the functions in `pools`.
pub fn pool_addresses(pools: &[DevicePool]) -> impl Iterator<Item = &String> {
    let functions = pools.iter().filter_map(|pool| match &pool.kind {
        DevicePoolKind::Functions(functions) => Some(functions),
        _ => None,
    });
    functions.flat_map(|functions| &functions.selectors).flat_map(|selector| &selector.pci_addresses)
}
