//! The functions that may be given out now, as pools.

use super::{
    GuidSource, Survey,
    due::is_right,
    want::{Group, Wanted},
};
use crate::{
    discover::Class,
    pools::{Functions, Kind, Pool, Selector},
};
use ferroband_model::{PciAddress, ResourceName};
use std::collections::{BTreeMap, BTreeSet};

/// The pools of what is wanted and right. What is about to be touched is in none: nobody new shall get it.
pub fn offer(
    wanted: &Wanted,
    survey: &Survey,
    guids: &dyn GuidSource,
    touched: &BTreeSet<PciAddress>,
    prefix: &str,
) -> Vec<Pool> {
    let mut pools: BTreeMap<String, Pool> = BTreeMap::new();
    for adapter in &survey.adapters {
        let Some(want) = wanted.adapters.get(&adapter.pci) else { continue };
        for group in &want.groups {
            let right = |vf: &&super::Vf| {
                group.span.contains(&vf.index)
                    && !touched.contains(&vf.pci)
                    && is_right(want, adapter, vf, group, guids)
            };
            let addresses: Vec<String> =
                adapter.vfs.iter().filter(right).map(|vf| vf.pci.to_string()).collect();
            let Ok(resource) = ResourceName::new(prefix, &group.resource) else { continue };
            let pool = pools.entry(group.resource.clone()).or_insert_with(|| empty(resource, group));
            if let Kind::Functions(functions) = &mut pool.kind
                && !addresses.is_empty()
            {
                functions.exclude_topology |= group.exclude_topology;
                functions.selectors.push(selector(group, addresses));
            }
        }
    }
    // A pool without selectors would take everything.
    let some =
        |pool: &Pool| matches!(&pool.kind, Kind::Functions(functions) if !functions.selectors.is_empty());
    pools.into_values().filter(some).collect()
}

fn empty(resource: ResourceName, group: &Group) -> Pool {
    let functions = Functions { class: Class::Network, ..Functions::default() };
    Pool {
        resource,
        file: format!("policy {}", group.policy),
        field: "spec".to_owned(),
        kind: Kind::Functions(functions),
        management: false,
    }
}

fn selector(group: &Group, addresses: Vec<String>) -> Selector {
    Selector {
        pci_addresses: addresses,
        rdma: group.rdma && !group.vfio,
        vhost_net: group.vhost_net,
        ..Selector::default()
    }
}
