//! What policies offer. Upstream writes a ConfigMap that selects by vendor, device and name; here the functions themselves
//! are named, and nothing is written.

use super::{A, adapter, guids, pci, want};
use crate::configure::{DesiredAdapter, DesiredNodeConfig, ObservedNode, offer::ready_pools};
use crate::pools::{DevicePool, DevicePoolKind};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

fn pools(wants: Option<DesiredAdapter>) -> Vec<DevicePool> {
    let adapters: BTreeMap<_, _> = wants.map(|want| (pci(A), want)).into_iter().collect();
    let survey = ObservedNode { adapters: vec![adapter(4)], rdma_mode: None };
    ready_pools(
        &DesiredNodeConfig { adapters, ..DesiredNodeConfig::default() },
        &survey,
        &guids(),
        &BTreeSet::new(),
        "openshift.io",
    )
}

#[test]
fn c31_c33_a_policys_functions_are_its_pool_with_their_rdma_devices() {
    let seen = pools(Some(want(json!({}))));
    let [pool] = &seen[..] else { panic!("{seen:?}") };
    assert_eq!((pool.resource.to_string().as_str(), pool.file.as_str()), ("openshift.io/r", "policy p"));
    let DevicePoolKind::Functions(functions) = &pool.kind else { panic!("{pool:?}") };
    let [selector] = &functions.selectors[..] else { panic!("{functions:?}") };
    let all: Vec<String> = adapter(4).vfs.iter().map(|vf| vf.pci.to_string()).collect();
    assert_eq!((&selector.pci_addresses, selector.rdma, selector.vhost_net), (&all, true, false));
}

#[test]
fn c32_functions_of_vfio_have_no_rdma_device() {
    let group = json!({"resourceName": "r", "deviceType": "vfio-pci", "vfRange": "0-3", "isRdma": true, "policyName": "p"});
    let want = want(json!({"vfGroups": [group]}));
    let mut bound = adapter(4);
    bound.vfs.iter_mut().for_each(|vf| vf.driver = Some("vfio-pci".to_owned()));
    let survey = ObservedNode { adapters: vec![bound], rdma_mode: None };
    let wanted =
        DesiredNodeConfig { adapters: BTreeMap::from([(pci(A), want)]), ..DesiredNodeConfig::default() };
    let seen = ready_pools(&wanted, &survey, &guids(), &BTreeSet::new(), "openshift.io");
    let Some(DevicePoolKind::Functions(functions)) = seen.first().map(|pool| &pool.kind) else {
        panic!("{seen:?}")
    };
    assert!(functions.selectors.iter().all(|selector| !selector.rdma), "{functions:?}");
}

#[test]
fn c34_without_a_policy_nothing_is_offered() {
    assert_eq!(pools(None).len(), 0);
}
