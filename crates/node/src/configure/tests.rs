//! Tests of the planned changes to adapters, functions and firmware.

mod firmware;
mod node_diff;
mod ready_pools;
mod reconcile;

use super::{
    Action, AdapterInterface, AdapterOriginalState, AdapterPlan, DerivedGuids, DesiredAdapter, DesiredGuids,
    DesiredNodeConfig, GuidChooser, GuidFile, GuidSource, ObservedAdapter, ObservedFunction, PfIdentity,
    VfDriver, plan_adapter,
};
use ferroband_api::sriov::SriovNetworkNodeStateSpec;
use ferroband_kernel::{NetnsMode, rtnetlink::VfLinkState};
use ferroband_model::{Fault, FaultCode, Guid, LinkLayer, PciAddress};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const A: &str = "0000:3b:00.0";

fn pci(text: &str) -> PciAddress {
    text.parse().unwrap()
}

fn guids() -> DerivedGuids {
    DerivedGuids { cluster: "c".to_owned(), node: "n".to_owned() }
}

/// Adapter A with `count` correctly configured functions.
fn observed_adapter(count: u32) -> ObservedAdapter {
    let (address, guid) = (pci(A), Some(Guid::new(0x0200_0000_0000_00aa)));
    let vf = |index: u32| {
        let assigned = guids().guid(PfIdentity { pci: address, guid }, index, None).unwrap();
        ObservedFunction {
            pci: address.offset_by(2 + index as u16).unwrap(),
            index,
            driver: Some("mlx5_core".to_owned()),
            guid: Some(assigned),
            assigned: Some((Some(assigned), Some(VfLinkState::Auto))),
            interface: Some((format!("ibs1v{index}"), 2044)),
            has_iommu_group: true,
            guid_requested: false,
            error: None,
        }
    };
    ObservedAdapter {
        pci: address,
        vendor: 0x15b3,
        link_layer: Some(LinkLayer::InfiniBand),
        guid,
        total_vfs: 16,
        interface: Some(AdapterInterface { index: 7, mtu: 2044, up: true }),
        vfs: (0..count).map(vf).collect(),
        error: None,
        status: Default::default(),
    }
}

/// The desired configuration of adapter A with `interface` merged into the default.
fn desired_adapter(interface: Value) -> DesiredAdapter {
    let mut interface_spec = json!({
        "pciAddress": A, "numVfs": 4,
        "vfGroups": [{
            "resourceName": "r", "deviceType": "netdevice", "vfRange": "0-3", "isRdma": true, "policyName": "p",
        }],
    });
    for (key, value) in interface.as_object().unwrap() {
        interface_spec[key] = value.clone();
    }
    let spec: SriovNetworkNodeStateSpec =
        serde_json::from_value(json!({"interfaces": [interface_spec]})).unwrap();
    let config = DesiredNodeConfig::from_spec(&spec);
    assert_eq!(config.faults, []);
    config.adapters[&pci(A)].clone()
}

fn managed_state(observed: &ObservedAdapter) -> AdapterOriginalState {
    let guids = BTreeMap::new();
    AdapterOriginalState { vfs: 0, guids, ..AdapterOriginalState::capture(observed, false) }
}

/// The GUIDs from `source`, without a GUID file.
fn chosen(
    desired: Option<&DesiredAdapter>,
    observed: &ObservedAdapter,
    state: Option<&AdapterOriginalState>,
    source: &dyn GuidSource,
) -> DesiredGuids {
    let chooser = GuidChooser::read(Path::new("/nonexistent"), Some(source));
    desired.map(|desired| chooser.choose_for_adapter(desired, observed, state)).unwrap_or_default()
}

/// Plans without a GUID file and without firmware changes.
fn plan_all(
    desired: Option<&DesiredAdapter>,
    observed: &ObservedAdapter,
    state: Option<&AdapterOriginalState>,
) -> AdapterPlan {
    plan_adapter(desired, observed, state, &chosen(desired, observed, state, &guids()), false)
}

fn plan(
    desired: &DesiredAdapter,
    observed: &ObservedAdapter,
    state: Option<&AdapterOriginalState>,
) -> AdapterPlan {
    let plan = plan_all(Some(desired), observed, state);
    assert_eq!(plan.faults, []);
    plan
}

/// The number of functions that a plan creates.
fn new_count(plan: &AdapterPlan) -> Option<u16> {
    plan.actions.iter().find_map(|action| match action {
        Action::SetVfCount { count, .. } => Some(*count),
        _ => None,
    })
}

/// The original state that a plan saves, which must be its first action.
fn saved_state(plan: &AdapterPlan) -> Option<&AdapterOriginalState> {
    match plan.actions.first() {
        Some(Action::SaveOriginalState { state, .. }) => Some(state),
        _ => None,
    }
}

/// The indexes and new GUIDs of functions.
fn new_guids(plan: &AdapterPlan) -> Vec<(u32, Guid)> {
    let guid = |action: &Action| match action {
        Action::SetVfGuid { index, guid, .. } => Some((*index, *guid)),
        _ => None,
    };
    plan.actions.iter().filter_map(guid).collect()
}

/// The functions whose driver is bound, without a new GUID.
fn rebinds(plan: &AdapterPlan) -> Vec<(PciAddress, VfDriver)> {
    let rebind = |action: &Action| match action {
        Action::BindVfDriver { vf, driver, .. } => Some((*vf, *driver)),
        _ => None,
    };
    plan.actions.iter().filter_map(rebind).collect()
}

/// The only fault of a plan.
fn fault(
    desired: &DesiredAdapter,
    observed: &ObservedAdapter,
    state: Option<&AdapterOriginalState>,
) -> Fault {
    let plan = plan_all(Some(desired), observed, state);
    let [fault] = &plan.faults[..] else { panic!("{plan:?}") };
    fault.clone()
}

// Case: operator C43
#[test]
fn creating_the_first_functions_disrupts_no_pod() {
    let observed = observed_adapter(0);
    let changes = plan(&desired_adapter(json!({})), &observed, None);
    assert_eq!((new_count(&changes), changes.disrupted_vfs.len()), (Some(4), 0));
    assert_eq!(
        saved_state(&changes),
        Some(&AdapterOriginalState::capture(&observed, false)),
        "the original state is saved first"
    );
}

// Case: operator C44
#[test]
fn more_functions_disrupt_all_functions_of_the_adapter() {
    let observed = observed_adapter(4);
    let changes = plan(&desired_adapter(json!({"numVfs": 8})), &observed, Some(&managed_state(&observed)));
    assert_eq!((new_count(&changes), changes.disrupted_vfs.len()), (Some(8), 4));
}

// Case: operator C45
#[test]
fn matching_adapter_is_not_changed() {
    let observed = observed_adapter(4);
    assert_eq!(plan(&desired_adapter(json!({})), &observed, Some(&managed_state(&observed))).actions, []);
}

#[test]
fn fewer_desired_functions_do_not_change_the_adapter() {
    let observed = observed_adapter(8);
    assert_eq!(plan(&desired_adapter(json!({})), &observed, Some(&managed_state(&observed))).actions, []);
}

// Case: operator C46
#[test]
fn more_functions_than_totalvfs_fail_with_both_numbers() {
    let fault = fault(&desired_adapter(json!({"numVfs": 17})), &observed_adapter(0), None);
    assert!(fault.cause.contains("17") && fault.cause.contains("16"), "{fault}");
}

// Case: operator C47
#[test]
fn derived_guids_are_stable_and_unique() {
    let derive = |cluster: &str, guid: u64, vf| {
        let source = DerivedGuids { cluster: cluster.to_owned(), ..guids() };
        source.guid(PfIdentity { pci: pci(A), guid: Some(Guid::new(guid)) }, vf, None).unwrap()
    };
    assert_eq!(derive("c", 1, 0), derive("c", 1, 0));
    let all: BTreeSet<_> = (0..10_000)
        .flat_map(|pf| (0..16).map(move |vf| (pf, vf)))
        .map(|(pf, vf)| derive("c", pf, vf))
        .collect();
    assert_eq!(all.len(), 160_000);
    assert!(all.iter().all(|guid| guid.bytes()[0] == 2), "locally administered, neither 0 nor ff");
    assert_ne!(derive("c", 1, 0), derive("d", 1, 0), "two clusters on one fabric");
    // A function without a GUID must get one, and its driver must be bound again.
    let mut observed = observed_adapter(4);
    observed.vfs[1].guid = None;
    observed.vfs[1].assigned = Some((None, Some(VfLinkState::Disable)));
    let changes = plan(&desired_adapter(json!({})), &observed, Some(&managed_state(&observed)));
    let [Action::SetVfGuid { index: 1, link_auto: true, .. }] = changes.actions[..] else {
        panic!("{changes:?}")
    };
    assert_eq!(changes.disrupted_vfs, BTreeSet::from([observed.vfs[1].pci]));
}

// Case: operator C48
#[test]
fn guids_are_taken_from_the_guid_file() {
    let file = r#"[{"pciAddress":"0000:3b:00.0","guidsRange":{"start":"02:00:00:00:00:00:00:10","end":"02:00:00:00:00:00:00:11"}}]"#;
    let source = GuidFile::parse(file).unwrap();
    let guid = |vf| source.guid(PfIdentity { pci: pci(A), guid: None }, vf);
    assert_eq!(guid(0).unwrap().to_string(), "02:00:00:00:00:00:00:10");
    assert_eq!(guid(1).unwrap().to_string(), "02:00:00:00:00:00:00:11");
    assert!(guid(2).unwrap_err().cause.contains("function 2"));
    let other = source.guid(PfIdentity { pci: pci("0000:86:00.0"), guid: None }, 0).unwrap_err();
    assert!(other.cause.contains("no guid pool for pci address 0000:86:00.0"));
    for wrong in [
        "{",
        r#"[{"pciAddress":"0000:3b:00.0"}]"#,
        r#"[{"guids":[]}]"#,
        r#"[{"pci_address":"0000:3b:00.0","guids":[]}]"#,
    ] {
        GuidFile::parse(wrong).unwrap_err();
    }
}

// Case: operator C50
#[test]
fn guid_of_zeros_counts_as_unset() {
    let mut observed = observed_adapter(4);
    observed.vfs[0].guid = Some(Guid::new(0));
    let changes = plan(&desired_adapter(json!({})), &observed, Some(&managed_state(&observed)));
    let [(0, guid)] = new_guids(&changes)[..] else { panic!("{changes:?}") };
    assert!(!guid.is_unset());
}

// Case: operator C51
#[test]
fn guids_are_printed_most_significant_byte_first() {
    let guid: Guid = "32bf:6dc9:5e13:bc14".parse().unwrap();
    assert_eq!(guid.to_string(), "32:bf:6d:c9:5e:13:bc:14");
}

// Case: operator C54
#[test]
fn functions_outside_all_groups_are_ignored() {
    let mut observed = observed_adapter(6);
    observed.vfs[5].driver = Some("something-odd".to_owned());
    observed.vfs[5].guid = None;
    assert_eq!(plan(&desired_adapter(json!({})), &observed, Some(&managed_state(&observed))).actions, []);
}

// Case: operator C55
#[test]
fn vfio_pci_needs_an_iommu_group() {
    let vfio = desired_adapter(
        json!({"vfGroups": [{"resourceName": "r", "deviceType": "vfio-pci", "vfRange": "0-3"}]}),
    );
    let observed = observed_adapter(4);
    let changes = plan(&vfio, &observed, Some(&managed_state(&observed)));
    assert_eq!(rebinds(&changes), observed.vfs.iter().map(|vf| (vf.pci, VfDriver::Vfio)).collect::<Vec<_>>());
    assert_eq!(changes.actions.len(), 4, "no GUID is set: {changes:?}");
    let mut without = observed_adapter(4);
    without.vfs.iter_mut().for_each(|vf| vf.has_iommu_group = false);
    let fault = fault(&vfio, &without, Some(&managed_state(&without)));
    assert!(fault.to_string().contains("IOMMU"), "{fault}");
    // A function that is bound to vfio-pci must be bound to the kernel driver if the policy wants that one.
    let mut bound = observed_adapter(4);
    bound.vfs[2].driver = Some("vfio-pci".to_owned());
    let back = plan(&desired_adapter(json!({})), &bound, Some(&managed_state(&bound)));
    assert_eq!(rebinds(&back), [(bound.vfs[2].pci, VfDriver::Kernel)]);
    assert_eq!(back.actions.len(), 1);
}

// Case: operator C52
#[test]
fn guid_that_the_holding_pod_requested_is_no_difference() {
    let mut observed = observed_adapter(4);
    let requested = Guid::new(0x0a01);
    observed.vfs[1].guid = Some(requested);
    observed.vfs[1].assigned = Some((Some(requested), Some(VfLinkState::Auto)));
    let state = managed_state(&observed);
    assert_eq!(plan(&desired_adapter(json!({})), &observed, Some(&state)).actions.len(), 1);
    observed.vfs[1].guid_requested = true;
    let planned = plan_all(Some(&desired_adapter(json!({}))), &observed, Some(&state));
    assert_eq!(planned.actions, [], "{planned:?}");
    assert!(planned.ready_vfs.contains(&observed.vfs[1].pci), "it stays advertised");
    let adopted = AdapterOriginalState::capture(&observed, false).guids;
    assert_eq!(adopted.keys().collect::<Vec<_>>(), [&0, &2, &3], "it is not the function's own");
}

// Case: operator C53
#[test]
fn guids_found_at_take_over_are_adopted_unless_two_functions_share_one() {
    let mut observed = observed_adapter(4);
    for (vf, guid) in observed.vfs.iter_mut().zip([0x11, 0x22, 0x22, 0]) {
        vf.guid = Some(Guid::new(guid));
        vf.assigned = Some((vf.guid, Some(VfLinkState::Auto)));
    }
    let changes = plan(&desired_adapter(json!({})), &observed, None);
    assert_eq!(
        new_guids(&changes).iter().map(|(index, _)| *index).collect::<Vec<_>>(),
        [2, 3],
        "a duplicate and an unset GUID are replaced"
    );
    let adopted = saved_state(&changes).unwrap().guids.clone();
    assert_eq!(adopted, BTreeMap::from([(0, Guid::new(0x11)), (1, Guid::new(0x22))]));
}

// Case: operator C49
#[test]
fn functions_that_got_a_guid_are_offered_if_the_range_is_too_small() {
    struct TwoGuids;
    impl GuidSource for TwoGuids {
        fn guid(&self, pf: PfIdentity, vf: u32, adopted: Option<Guid>) -> Result<Guid, Fault> {
            match vf {
                0 | 1 => guids().guid(pf, vf, adopted),
                _ => Err(Fault::new(FaultCode::InvalidConfig, "GUIDs", "all are claimed", "enlarge it")),
            }
        }
    }
    let mut observed = observed_adapter(4);
    observed.vfs[1].driver = None;
    let (desired, state) = (desired_adapter(json!({})), managed_state(&observed));
    let guids = chosen(Some(&desired), &observed, Some(&state), &TwoGuids);
    let plan = plan_adapter(Some(&desired), &observed, Some(&state), &guids, false);
    assert_eq!(plan.ready_vfs, BTreeSet::from([observed.vfs[0].pci]));
    assert_eq!(rebinds(&plan), [(observed.vfs[1].pci, VfDriver::Kernel)], "the others go on");
    assert_eq!(plan.actions.len(), 1);
    let [fault] = &plan.faults[..] else { panic!("{plan:?}") };
    assert_eq!(fault.what, "virtual functions 2, 3 of adapter 0000:3b:00.0");
    assert_eq!((fault.cause.as_str(), fault.remedy.as_str()), ("GUIDs: all are claimed", "enlarge it"));
}

// Case: operator C48
#[test]
fn invalid_guid_file_is_reported_and_functions_keep_their_guids() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("guids");
    let source = guids();
    let mut observed = observed_adapter(4);
    observed.vfs[3].guid = None;
    observed.vfs[3].assigned = None;
    let plan_now = || {
        let (desired, state) = (desired_adapter(json!({})), managed_state(&observed));
        let chooser = GuidChooser::read(&path, Some(&source));
        let guids = chooser.choose_for_adapter(&desired, &observed, Some(&state));
        let plan = plan_adapter(Some(&desired), &observed, Some(&state), &guids, false);
        (plan, guids.file_fault)
    };
    assert_eq!(plan_now().0.faults, [], "without a file");
    std::fs::write(&path, "[{").unwrap();
    let (plan, fault) = plan_now();
    assert!(fault.unwrap().to_string().contains("EOF"), "the parser's error is shown");
    assert_eq!((plan.ready_vfs.len(), plan.actions.len()), (3, 0));
    assert!(plan.faults[0].to_string().contains("EOF"), "{:?}", plan.faults);
    // The file is read again when it changes.
    let file = r#"[{"pciAddress":"0000:3b:00.0","guidsRange":{"start":"02:00:00:00:00:00:00:10","end":"02:00:00:00:00:00:00:13"}}]"#;
    std::fs::write(&path, file).unwrap();
    let (plan, fault) = plan_now();
    assert_eq!((fault, plan.faults.len()), (None, 0));
    let planned: Vec<_> = new_guids(&plan).iter().map(|(_, guid)| guid.value() & 0xff).collect();
    assert_eq!(planned, [0x10, 0x11, 0x12, 0x13]);
}

// Case: operator C56
#[test]
fn functions_of_a_port_with_another_link_type_are_neither_created_nor_offered() {
    let mut observed = observed_adapter(4);
    observed.link_layer = Some(LinkLayer::Ethernet);
    let desired = desired_adapter(json!({"linkType": "ib", "numVfs": 8}));
    let state = managed_state(&observed);
    let guids = chosen(Some(&desired), &observed, Some(&state), &guids());
    let waiting = plan_adapter(Some(&desired), &observed, Some(&state), &guids, true);
    assert_eq!(waiting, AdapterPlan::default(), "the node waits for its reboot");
    let stuck = plan_adapter(Some(&desired), &observed, Some(&state), &guids, false);
    assert_eq!((stuck.actions.len(), stuck.ready_vfs.len()), (0, 0));
    assert!(stuck.faults[0].cause.contains("Ethernet"), "{:?}", stuck.faults);
}

// Case: operator C61
#[test]
fn adapter_that_cannot_be_read_is_reported_and_not_changed() {
    let mut observed = observed_adapter(4);
    observed.guid = None;
    observed.error = Some("cannot read node_guid: Input/output error".to_owned());
    for desired in [Some(desired_adapter(json!({"numVfs": 8}))), None] {
        let plan = plan_all(desired.as_ref(), &observed, Some(&managed_state(&observed)));
        assert_eq!(plan.actions, [], "{plan:?}");
        assert!(plan.faults[0].to_string().contains("Input/output error"), "{plan:?}");
    }
    // An error of one function does not affect the others.
    let mut observed = observed_adapter(4);
    observed.vfs[1].guid = None;
    observed.vfs[1].error = Some("Input/output error".to_owned());
    observed.vfs[2].driver = None;
    let plan = plan_all(Some(&desired_adapter(json!({}))), &observed, Some(&managed_state(&observed)));
    assert_eq!(rebinds(&plan), [(observed.vfs[2].pci, VfDriver::Kernel)]);
    assert_eq!(plan.actions.len(), 1);
    assert!(plan.faults[0].what.contains("functions 1 of"), "{plan:?}");
}

#[test]
fn mtu_is_raised_but_never_lowered() {
    let observed = observed_adapter(4);
    assert_eq!(
        plan(&desired_adapter(json!({"mtu": 4092})), &observed, Some(&managed_state(&observed))).actions,
        [Action::SetMtu { pf: pci(A), mtu: 4092 }]
    );
    assert_eq!(
        plan(&desired_adapter(json!({"mtu": 1500})), &observed, Some(&managed_state(&observed))).actions,
        []
    );
}

#[test]
fn original_state_is_restored_step_by_step_and_unmanaged_adapters_are_not_changed() {
    let undo = |observed: &ObservedAdapter, state: Option<&AdapterOriginalState>| {
        let plan = plan_all(None, observed, state);
        (plan.actions, plan.disrupted_vfs.len())
    };
    let pf = pci(A);
    assert_eq!(undo(&observed_adapter(4), None).0, [], "functions that Ferroband did not create");
    let mut observed = observed_adapter(4);
    let before = AdapterOriginalState { mtu: Some(2044), up: Some(false), ..AdapterOriginalState::default() };
    assert_eq!(undo(&observed, Some(&before)), (vec![Action::SetVfCount { pf, count: 0 }], 4));
    observed.vfs.clear();
    observed.interface = Some(AdapterInterface { index: 7, mtu: 4092, up: true });
    assert_eq!(
        undo(&observed, Some(&before)).0,
        [Action::SetMtu { pf, mtu: 2044 }, Action::SetLink { pf, up: false }]
    );
    observed.interface = Some(AdapterInterface { index: 7, mtu: 2044, up: false });
    assert_eq!(undo(&observed, Some(&before)).0, [Action::RemoveOriginalState { pf }]);
}

#[test]
fn externally_managed_functions_are_used_but_not_changed() {
    let external = desired_adapter(json!({"externallyManaged": true}));
    let observed = observed_adapter(8);
    let first = plan(&external, &observed, None);
    assert_eq!(saved_state(&first).map(|state| state.external), Some(true));
    assert_eq!(first.actions.len(), 1, "{first:?}");
    let state = AdapterOriginalState::capture(&observed, true);
    assert_eq!(plan(&external, &observed, Some(&state)).actions, []);
    let undo = plan_all(None, &observed, Some(&state)).actions;
    assert_eq!(undo, [Action::RemoveOriginalState { pf: pci(A) }], "only the saved state is removed");
    let more = desired_adapter(json!({"externallyManaged": true, "numVfs": 9}));
    assert!(fault(&more, &observed, Some(&state)).cause.contains("9 virtual functions requested"));
}

#[test]
fn only_matching_functions_are_ready() {
    let mut observed = observed_adapter(4);
    observed.vfs[2].guid = None;
    observed.vfs[2].assigned = None;
    let plan = plan_all(Some(&desired_adapter(json!({}))), &observed, Some(&managed_state(&observed)));
    let ready = observed.vfs.iter().filter(|vf| plan.ready_vfs.contains(&vf.pci)).map(|vf| vf.index);
    assert_eq!(ready.collect::<Vec<_>>(), [0, 1, 3]);
}

#[test]
fn invalid_interfaces_are_reported_and_the_others_are_used() {
    let spec = json!({
        "interfaces": [
            {"pciAddress": "nowhere", "numVfs": 1},
            {"pciAddress": "0000:86:00.0", "numVfs": 2, "vfGroups": [{"vfRange": "0", "resourceName": "r"}]},
            {"pciAddress": A, "numVfs": 3, "linkType": "IB"},
        ],
        "system": {"rdmaMode": "exclusive", "allowReboot": true},
    });
    let config = DesiredNodeConfig::from_spec(&serde_json::from_value(spec).unwrap());
    assert_eq!((config.adapters.len(), config.faults.len()), (1, 2));
    assert_eq!(config.adapters[&pci(A)].link_layer, Some(LinkLayer::InfiniBand));
    assert_eq!((config.rdma_mode, config.allow_reboot), (Some(NetnsMode::Exclusive), true));
}
