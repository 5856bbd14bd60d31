//! Tests of the pools of policies. The upstream operator writes a ConfigMap that selects functions by vendor,
//! device and name. Ferroband's pools list the functions and need no ConfigMap.

use super::{A, desired_adapter, observed_adapter, pci};
use crate::configure::{DesiredAdapter, DesiredNodeConfig, ObservedNode, ready_pools::ready_pools};
use crate::pools::{DevicePool, DevicePoolKind};
use ferroband_model::PciAddress;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

fn all_vfs() -> BTreeSet<PciAddress> {
    observed_adapter(4).vfs.iter().map(|vf| vf.pci).collect()
}

fn pools_of(desired: Option<DesiredAdapter>) -> Vec<DevicePool> {
    let adapters: BTreeMap<_, _> = desired.map(|desired| (pci(A), desired)).into_iter().collect();
    let observed_node = ObservedNode { adapters: vec![observed_adapter(4)], ..ObservedNode::default() };
    ready_pools(
        &DesiredNodeConfig { adapters, ..DesiredNodeConfig::default() },
        &observed_node,
        &all_vfs(),
        "openshift.io",
    )
}

// Case: operator C31
#[test]
fn pool_of_a_policy_contains_its_functions_with_their_rdma_devices() {
    let pools = pools_of(Some(desired_adapter(json!({}))));
    let [pool] = &pools[..] else { panic!("{pools:?}") };
    assert_eq!((pool.resource.to_string().as_str(), pool.file.as_str()), ("openshift.io/r", "policy p"));
    let DevicePoolKind::Functions(functions) = &pool.kind else { panic!("{pool:?}") };
    let [selector] = &functions.selectors[..] else { panic!("{functions:?}") };
    let all: Vec<String> = observed_adapter(4).vfs.iter().map(|vf| vf.pci.to_string()).collect();
    assert_eq!((&selector.pci_addresses, selector.rdma, selector.vhost_net), (&all, true, false));
}

// Case: operator C32
#[test]
fn vfio_functions_have_no_rdma_device() {
    let group = json!({
        "resourceName": "r", "deviceType": "vfio-pci", "vfRange": "0-3", "isRdma": true, "policyName": "p",
    });
    let desired = desired_adapter(json!({"vfGroups": [group]}));
    let mut bound = observed_adapter(4);
    bound.vfs.iter_mut().for_each(|vf| vf.driver = Some("vfio-pci".to_owned()));
    let observed_node = ObservedNode { adapters: vec![bound], ..ObservedNode::default() };
    let config =
        DesiredNodeConfig { adapters: BTreeMap::from([(pci(A), desired)]), ..DesiredNodeConfig::default() };
    let pools = ready_pools(&config, &observed_node, &all_vfs(), "openshift.io");
    let Some(DevicePoolKind::Functions(functions)) = pools.first().map(|pool| &pool.kind) else {
        panic!("{pools:?}")
    };
    assert!(functions.selectors.iter().all(|selector| !selector.rdma), "{functions:?}");
}

// Case: operator C34
#[test]
fn no_policy_means_no_pool() {
    assert_eq!(pools_of(None).len(), 0);
}
