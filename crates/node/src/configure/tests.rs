//! Tests of the planned changes to adapters, functions and firmware.

mod offered;

use super::{
    AdapterChanges, AdapterInterface, AdapterOriginalState, DerivedGuids, DesiredAdapter, DesiredNodeConfig,
    GuidFile, GuidSource, ObservedAdapter, ObservedFunction, PfIdentity,
    due::{VfDriver, is_vf_ready, plan_changes},
    want::DesiredVfGroup,
};
use ferroband_api::sriov::SriovNetworkNodeStateSpec;
use ferroband_kernel::{NetnsMode, rtnetlink::VfLinkState};
use ferroband_model::{Guid, LinkLayer, PciAddress};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const A: &str = "0000:3b:00.0";

fn pci(text: &str) -> PciAddress {
    text.parse().unwrap()
}

fn guids() -> DerivedGuids {
    DerivedGuids { cluster: "c".to_owned(), node: "n".to_owned(), guid_file: None }
}

/// Adapter A with `count` correctly configured functions.
fn observed_adapter(count: u32) -> ObservedAdapter {
    let (address, guid) = (pci(A), Some(Guid::new(0x0200_0000_0000_00aa)));
    let vf = |index: u32| {
        let assigned = guids().guid(PfIdentity { pci: address, guid }, index).unwrap();
        ObservedFunction {
            pci: address.offset_by(2 + index as u16).unwrap(),
            index,
            driver: Some("mlx5_core".to_owned()),
            guid: Some(assigned),
            assigned: Some((Some(assigned), Some(VfLinkState::Auto))),
            interface: Some((format!("ibs1v{index}"), 2044)),
            has_iommu_group: true,
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
    AdapterOriginalState { vfs: 0, ..AdapterOriginalState::capture(observed, false) }
}

fn plan(
    desired: &DesiredAdapter,
    observed: &ObservedAdapter,
    state: Option<&AdapterOriginalState>,
) -> AdapterChanges {
    plan_changes(Some(desired), observed, state, &guids(), &BTreeSet::new()).unwrap()
}

// Case: operator C43
#[test]
fn creating_the_first_functions_disrupts_no_pod() {
    let observed = observed_adapter(0);
    let changes = plan(&desired_adapter(json!({})), &observed, None);
    assert_eq!((changes.vf_count, changes.disrupted_vfs.len()), (Some(4), 0));
    assert_eq!(
        changes.original_state,
        Some(AdapterOriginalState::capture(&observed, false)),
        "the original state is saved first"
    );
}

// Case: operator C44
#[test]
fn more_functions_disrupt_all_functions_of_the_adapter() {
    let observed = observed_adapter(4);
    let changes = plan(&desired_adapter(json!({"numVfs": 8})), &observed, Some(&managed_state(&observed)));
    assert_eq!((changes.vf_count, changes.disrupted_vfs.len()), (Some(8), 4));
}

// Case: operator C45
#[test]
fn matching_adapter_is_not_changed() {
    let observed = observed_adapter(4);
    assert!(plan(&desired_adapter(json!({})), &observed, Some(&managed_state(&observed))).is_empty());
}

#[test]
fn fewer_desired_functions_do_not_change_the_adapter() {
    let observed = observed_adapter(8);
    assert!(plan(&desired_adapter(json!({})), &observed, Some(&managed_state(&observed))).is_empty());
}

// Case: operator C46
#[test]
fn more_functions_than_totalvfs_fail_with_both_numbers() {
    let fault = plan_changes(
        Some(&desired_adapter(json!({"numVfs": 17}))),
        &observed_adapter(0),
        None,
        &guids(),
        &BTreeSet::new(),
    )
    .unwrap_err();
    assert!(fault.cause.contains("17") && fault.cause.contains("16"), "{fault}");
}

// Case: operator C47
#[test]
fn derived_guids_are_stable_and_unique() {
    let derive = |cluster: &str, guid: u64, vf| {
        let source = DerivedGuids { cluster: cluster.to_owned(), ..guids() };
        source.guid(PfIdentity { pci: pci(A), guid: Some(Guid::new(guid)) }, vf).unwrap()
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
    let [vf] = changes.vfs.as_slice() else { panic!("{changes:?}") };
    assert_eq!((vf.index, vf.set_link_auto, vf.rebind), (1, true, Some(VfDriver::Kernel)));
    assert!(vf.guid.is_some());
    assert_eq!(changes.disrupted_vfs, BTreeSet::from([observed.vfs[1].pci]));
}

// Case: operator C48
#[test]
fn guids_are_taken_from_the_guid_file() {
    let file = r#"[{"pciAddress":"0000:3b:00.0","guidsRange":{"start":"02:00:00:00:00:00:00:10","end":"02:00:00:00:00:00:00:11"}}]"#;
    let source = DerivedGuids { guid_file: Some(GuidFile::parse(file).unwrap()), ..guids() };
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
    assert_eq!(changes.vfs.iter().map(|vf| vf.index).collect::<Vec<_>>(), [0]);
    assert!(changes.vfs[0].guid.is_some_and(|guid| !guid.is_unset()));
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
    assert!(plan(&desired_adapter(json!({})), &observed, Some(&managed_state(&observed))).is_empty());
}

// Case: operator C55
#[test]
fn vfio_pci_needs_an_iommu_group() {
    let vfio = desired_adapter(
        json!({"vfGroups": [{"resourceName": "r", "deviceType": "vfio-pci", "vfRange": "0-3"}]}),
    );
    let observed = observed_adapter(4);
    let changes = plan(&vfio, &observed, Some(&managed_state(&observed)));
    assert!(changes.vfs.iter().all(|vf| vf.rebind == Some(VfDriver::Vfio) && vf.guid.is_none()));
    let mut without = observed_adapter(4);
    without.vfs.iter_mut().for_each(|vf| vf.has_iommu_group = false);
    let fault =
        plan_changes(Some(&vfio), &without, Some(&managed_state(&without)), &guids(), &BTreeSet::new())
            .unwrap_err();
    assert!(fault.to_string().contains("IOMMU"), "{fault}");
    // A function that is bound to vfio-pci must be bound to the kernel driver if the policy wants that one.
    let mut bound = observed_adapter(4);
    bound.vfs[2].driver = Some("vfio-pci".to_owned());
    let back = plan(&desired_adapter(json!({})), &bound, Some(&managed_state(&bound)));
    assert_eq!(
        back.vfs.iter().map(|vf| (vf.index, vf.rebind)).collect::<Vec<_>>(),
        [(2, Some(VfDriver::Kernel))]
    );
}

// Case: operator C72
#[test]
fn missing_driver_of_a_held_function_causes_no_drain() {
    let mut observed = observed_adapter(4);
    observed.vfs[0].driver = None;
    let held = BTreeSet::from([observed.vfs[0].pci]);
    let under = plan_changes(
        Some(&desired_adapter(json!({}))),
        &observed,
        Some(&managed_state(&observed)),
        &guids(),
        &held,
    )
    .unwrap();
    assert!(under.is_empty(), "{under:?}");
    // If no pod holds the function, its driver must be bound again.
    let free = plan(&desired_adapter(json!({})), &observed, Some(&managed_state(&observed)));
    assert_eq!(free.vfs[0].rebind, Some(VfDriver::Kernel));
}

#[test]
fn mtu_is_raised_but_never_lowered() {
    let observed = observed_adapter(4);
    assert_eq!(
        plan(&desired_adapter(json!({"mtu": 4092})), &observed, Some(&managed_state(&observed))).mtu,
        Some(4092)
    );
    assert_eq!(
        plan(&desired_adapter(json!({"mtu": 1500})), &observed, Some(&managed_state(&observed))).mtu,
        None
    );
}

#[test]
fn original_state_is_restored_step_by_step_and_unmanaged_adapters_are_not_changed() {
    let no_functions_held = BTreeSet::new();
    let undo = |observed: &ObservedAdapter, state: Option<&AdapterOriginalState>| {
        plan_changes(None, observed, state, &guids(), &no_functions_held).unwrap()
    };
    assert!(undo(&observed_adapter(4), None).is_empty(), "functions that Ferroband did not create");
    let mut observed = observed_adapter(4);
    let before =
        AdapterOriginalState { vfs: 0, mtu: Some(2044), up: Some(false), external: false, names: Vec::new() };
    let first = undo(&observed, Some(&before));
    assert_eq!((first.vf_count, first.disrupted_vfs.len(), first.remove_original_state), (Some(0), 4, false));
    observed.vfs.clear();
    observed.interface = Some(AdapterInterface { index: 7, mtu: 4092, up: true });
    let second = undo(&observed, Some(&before));
    assert_eq!((second.mtu, second.up, second.remove_original_state), (Some(2044), Some(false), false));
    observed.interface = Some(AdapterInterface { index: 7, mtu: 2044, up: false });
    assert_eq!(
        undo(&observed, Some(&before)),
        AdapterChanges { remove_original_state: true, ..AdapterChanges::default() }
    );
}

#[test]
fn externally_managed_functions_are_used_but_not_changed() {
    let external = desired_adapter(json!({"externallyManaged": true}));
    let observed = observed_adapter(8);
    let first = plan(&external, &observed, None);
    assert_eq!(first.original_state.as_ref().map(|state| state.external), Some(true));
    assert_eq!((first.vf_count, first.up, first.mtu), (None, None, None));
    let state = AdapterOriginalState::capture(&observed, true);
    assert!(plan(&external, &observed, Some(&state)).is_empty());
    let undo = plan_changes(None, &observed, Some(&state), &guids(), &BTreeSet::new()).unwrap();
    assert_eq!(
        undo,
        AdapterChanges { remove_original_state: true, ..AdapterChanges::default() },
        "only the saved state is removed"
    );
    let more = desired_adapter(json!({"externallyManaged": true, "numVfs": 9}));
    plan_changes(Some(&more), &observed, Some(&state), &guids(), &BTreeSet::new()).unwrap_err();
}

#[test]
fn only_matching_functions_are_ready() {
    let mut observed = observed_adapter(4);
    observed.vfs[2].guid = None;
    observed.vfs[2].assigned = None;
    let desired = desired_adapter(json!({}));
    let group: &DesiredVfGroup = &desired.groups[0];
    let ready: Vec<_> = observed
        .vfs
        .iter()
        .filter(|vf| is_vf_ready(&desired, &observed, vf, group, &guids()))
        .map(|vf| vf.index)
        .collect();
    assert_eq!(ready, [0, 1, 3]);
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

mod firmware {
    use super::{desired_adapter, observed_adapter};
    use crate::configure::{
        DesiredAdapter, ObservedAdapter,
        card::{FirmwarePlan, lockdown_fault, needs_firmware, plan_firmware},
    };
    use ferroband_kernel::firmware::parse_query;
    use ferroband_model::LinkLayer;
    use serde_json::json;

    fn settings(lines: &[(&str, &str, &str)]) -> ferroband_kernel::firmware::FirmwareSettings {
        let lines: Vec<_> =
            lines.iter().map(|(name, current, next)| format!("  {name}  x  {current}  {next}")).collect();
        parse_query(&lines.join("\n"))
    }

    fn default_settings(count: &str) -> ferroband_kernel::firmware::FirmwareSettings {
        settings(&[
            ("NUM_OF_VFS", count, count),
            ("SRIOV_EN", "True(1)", "True(1)"),
            ("LINK_TYPE_P1", "IB(1)", "IB(1)"),
        ])
    }

    fn expected(pairs: &[(&str, &str)], reboot: bool) -> FirmwarePlan {
        FirmwarePlan {
            set: pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
            needs_reboot: reboot,
        }
    }

    fn plan(
        desired: &DesiredAdapter,
        observed: &ObservedAdapter,
        settings: &ferroband_kernel::firmware::FirmwareSettings,
    ) -> FirmwarePlan {
        plan_firmware(&[(observed, Some(desired))], settings).unwrap()
    }

    // Case: operator C56
    #[test]
    fn link_type_change_is_set_and_needs_a_reboot() {
        let ethernet = desired_adapter(json!({"linkType": "eth"}));
        let observed = observed_adapter(0);
        assert!(needs_firmware(&[(&observed, Some(&ethernet))]));
        assert_eq!(
            plan(&ethernet, &observed, &default_settings("16")),
            expected(&[("LINK_TYPE_P1", "ETH")], true)
        );
        // LINK_TYPE_P1 is already changed for the next boot. It must not be set again, but a reboot is still
        // needed.
        let next = settings(&[
            ("NUM_OF_VFS", "16", "16"),
            ("SRIOV_EN", "True(1)", "True(1)"),
            ("LINK_TYPE_P1", "IB(1)", "ETH(2)"),
        ]);
        assert_eq!(plan(&ethernet, &observed, &next), expected(&[], true));
    }

    // Case: operator C57
    #[test]
    fn link_type_change_fails_if_the_card_does_not_support_it() {
        let only = settings(&[("NUM_OF_VFS", "16", "16"), ("SRIOV_EN", "True(1)", "True(1)")]);
        let observed = observed_adapter(0);
        let fault = plan_firmware(&[(&observed, Some(&desired_adapter(json!({"linkType": "eth"}))))], &only)
            .unwrap_err();
        assert!(fault.cause.contains("does not support a change"), "{fault}");
        let same = desired_adapter(json!({"linkType": "IB"}));
        assert!(!needs_firmware(&[(&observed, Some(&same))]));
        assert_eq!(plan(&same, &observed, &only), FirmwarePlan::default());
        let vpi = settings(&[
            ("NUM_OF_VFS", "16", "16"),
            ("SRIOV_EN", "True(1)", "True(1)"),
            ("LINK_TYPE_P1", "VPI(3)", "VPI(3)"),
        ]);
        let fault = plan_firmware(&[(&observed, Some(&desired_adapter(json!({"linkType": "eth"}))))], &vpi)
            .unwrap_err();
        assert!(fault.cause.contains("Unknown link type"), "{fault}");
    }

    // Case: operator C58
    #[test]
    fn higher_firmware_vf_count_is_kept() {
        assert_eq!(
            plan(&desired_adapter(json!({"numVfs": 8})), &observed_adapter(0), &default_settings("16")),
            FirmwarePlan::default()
        );
    }

    // Case: operator C59
    #[test]
    fn ports_of_a_card_share_one_firmware_vf_count() {
        let mut second = observed_adapter(0);
        second.pci = "0000:3b:00.1".parse().unwrap();
        second.total_vfs = 2;
        let (a, b) = (desired_adapter(json!({"numVfs": 4})), desired_adapter(json!({"numVfs": 8})));
        let first = ObservedAdapter { total_vfs: 2, ..observed_adapter(0) };
        let changes =
            plan_firmware(&[(&first, Some(&a)), (&second, Some(&b))], &default_settings("2")).unwrap();
        assert_eq!(changes, expected(&[("NUM_OF_VFS", "8")], true));
    }

    // Case: operator C60
    #[test]
    fn pending_firmware_values_are_corrected_without_a_reboot() {
        let next = settings(&[("NUM_OF_VFS", "4", "0"), ("SRIOV_EN", "True(1)", "False(0)")]);
        assert_eq!(
            plan(&desired_adapter(json!({})), &observed_adapter(0), &next),
            expected(&[("NUM_OF_VFS", "4"), ("SRIOV_EN", "True")], false)
        );
        let off = settings(&[("NUM_OF_VFS", "4", "4"), ("SRIOV_EN", "False(0)", "False(0)")]);
        assert_eq!(
            plan(&desired_adapter(json!({})), &observed_adapter(0), &off),
            expected(&[("SRIOV_EN", "True")], true)
        );
    }

    // Case: operator C62
    #[test]
    fn kernel_lockdown_and_dpu_mode_are_reported() {
        assert!(
            lockdown_fault(Some("none [integrity] confidentiality")).unwrap().cause.contains("integrity")
        );
        assert_eq!(lockdown_fault(Some("[none] integrity confidentiality")), None);
        assert_eq!(lockdown_fault(None), None);
        let dpu = settings(&[
            ("INTERNAL_CPU_MODEL", "EMBEDDED_CPU(1)", "x"),
            ("INTERNAL_CPU_OFFLOAD_ENGINE", "ENABLED(0)", "x"),
        ]);
        let observed = observed_adapter(0);
        assert!(
            plan_firmware(&[(&observed, Some(&desired_adapter(json!({}))))], &dpu)
                .unwrap_err()
                .cause
                .contains("DPU")
        );
    }

    #[test]
    fn externally_managed_adapters_need_no_firmware_query() {
        let external = desired_adapter(json!({"externallyManaged": true, "linkType": "eth", "numVfs": 99}));
        assert!(!needs_firmware(&[(&observed_adapter(0), Some(&external))]));
        assert_eq!(observed_adapter(0).link_layer, Some(LinkLayer::InfiniBand));
    }
}
