//! What is due, by the contract's cases.

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

/// Adapter A with so many functions, all as they should be.
fn adapter(count: u32) -> ObservedAdapter {
    let (address, guid) = (pci(A), Some(Guid::new(0x0200_0000_0000_00aa)));
    let vf = |index: u32| {
        let wanted = guids().guid(PfIdentity { pci: address, guid }, index).unwrap();
        ObservedFunction {
            pci: address.offset_by(2 + index as u16).unwrap(),
            index,
            driver: Some("mlx5_core".to_owned()),
            guid: Some(wanted),
            assigned: Some((Some(wanted), Some(VfLinkState::Auto))),
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

/// A state's spec for adapter A.
fn want(interface: Value) -> DesiredAdapter {
    let mut whole = json!({
        "pciAddress": A, "numVfs": 4,
        "vfGroups": [{"resourceName": "r", "deviceType": "netdevice", "vfRange": "0-3", "isRdma": true, "policyName": "p"}],
    });
    for (key, value) in interface.as_object().unwrap() {
        whole[key] = value.clone();
    }
    let spec: SriovNetworkNodeStateSpec = serde_json::from_value(json!({"interfaces": [whole]})).unwrap();
    let wanted = DesiredNodeConfig::from_spec(&spec);
    assert_eq!(wanted.faults, []);
    wanted.adapters[&pci(A)].clone()
}

fn ours(seen: &ObservedAdapter) -> AdapterOriginalState {
    AdapterOriginalState { vfs: 0, ..AdapterOriginalState::capture(seen, false) }
}

fn with(
    want: &DesiredAdapter,
    seen: &ObservedAdapter,
    record: Option<&AdapterOriginalState>,
) -> AdapterChanges {
    plan_changes(Some(want), seen, record, &guids(), &BTreeSet::new()).unwrap()
}

#[test]
fn c43_from_none_nobody_has_to_go() {
    let seen = adapter(0);
    let due = with(&want(json!({})), &seen, None);
    assert_eq!((due.vf_count, due.disrupted_vfs.len()), (Some(4), 0));
    assert_eq!(
        due.original_state,
        Some(AdapterOriginalState::capture(&seen, false)),
        "what was before is written down first"
    );
}

#[test]
fn c44_more_functions_touch_all_of_the_adapter() {
    let seen = adapter(4);
    let due = with(&want(json!({"numVfs": 8})), &seen, Some(&ours(&seen)));
    assert_eq!((due.vf_count, due.disrupted_vfs.len()), (Some(8), 4));
}

#[test]
fn c45_what_is_right_is_left_alone() {
    let seen = adapter(4);
    assert!(with(&want(json!({})), &seen, Some(&ours(&seen))).is_empty());
}

#[test]
fn fewer_functions_change_nothing_on_the_adapter() {
    let seen = adapter(8);
    assert!(with(&want(json!({})), &seen, Some(&ours(&seen))).is_empty());
}

#[test]
fn c46_more_than_the_adapter_has() {
    let fault =
        plan_changes(Some(&want(json!({"numVfs": 17}))), &adapter(0), None, &guids(), &BTreeSet::new())
            .unwrap_err();
    assert!(fault.cause.contains("17") && fault.cause.contains("16"), "{fault}");
}

#[test]
fn c47_guids_are_the_same_whenever_they_are_asked_for_and_differ_otherwise() {
    let of = |cluster: &str, guid: u64, vf| {
        let source = DerivedGuids { cluster: cluster.to_owned(), ..guids() };
        source.guid(PfIdentity { pci: pci(A), guid: Some(Guid::new(guid)) }, vf).unwrap()
    };
    assert_eq!(of("c", 1, 0), of("c", 1, 0));
    let all: BTreeSet<_> =
        (0..10_000).flat_map(|pf| (0..16).map(move |vf| (pf, vf))).map(|(pf, vf)| of("c", pf, vf)).collect();
    assert_eq!(all.len(), 160_000);
    assert!(all.iter().all(|guid| guid.bytes()[0] == 2), "locally administered, neither 0 nor ff");
    assert_ne!(of("c", 1, 0), of("d", 1, 0), "two clusters on one fabric");
    // A function without one gets both GUIDs and its driver anew.
    let mut seen = adapter(4);
    seen.vfs[1].guid = None;
    seen.vfs[1].assigned = Some((None, Some(VfLinkState::Disable)));
    let due = with(&want(json!({})), &seen, Some(&ours(&seen)));
    let [vf] = due.vfs.as_slice() else { panic!("{due:?}") };
    assert_eq!((vf.index, vf.set_link_auto, vf.rebind), (1, true, Some(VfDriver::Kernel)));
    assert!(vf.guid.is_some());
    assert_eq!(due.disrupted_vfs, BTreeSet::from([seen.vfs[1].pci]));
}

#[test]
fn c48_a_file_of_guids() {
    let file = r#"[{"pciAddress":"0000:3b:00.0","guidsRange":{"start":"02:00:00:00:00:00:00:10","end":"02:00:00:00:00:00:00:11"}}]"#;
    let listed = DerivedGuids { guid_file: Some(GuidFile::parse(file).unwrap()), ..guids() };
    let guid = |vf| listed.guid(PfIdentity { pci: pci(A), guid: None }, vf);
    assert_eq!(guid(0).unwrap().to_string(), "02:00:00:00:00:00:00:10");
    assert_eq!(guid(1).unwrap().to_string(), "02:00:00:00:00:00:00:11");
    assert!(guid(2).unwrap_err().cause.contains("function 2"));
    let other = listed.guid(PfIdentity { pci: pci("0000:86:00.0"), guid: None }, 0).unwrap_err();
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

#[test]
fn c50_a_guid_of_zeros_is_none() {
    let mut seen = adapter(4);
    seen.vfs[0].guid = Some(Guid::new(0));
    let due = with(&want(json!({})), &seen, Some(&ours(&seen)));
    assert_eq!(due.vfs.iter().map(|vf| vf.index).collect::<Vec<_>>(), [0]);
    assert!(due.vfs[0].guid.is_some_and(|guid| !guid.is_unset()));
}

#[test]
fn c51_guids_are_told_most_significant_byte_first() {
    let guid: Guid = "32bf:6dc9:5e13:bc14".parse().unwrap();
    assert_eq!(guid.to_string(), "32:bf:6d:c9:5e:13:bc:14");
}

#[test]
fn c54_functions_of_no_group_are_ignored() {
    let mut seen = adapter(6);
    seen.vfs[5].driver = Some("something-odd".to_owned());
    seen.vfs[5].guid = None;
    assert!(with(&want(json!({})), &seen, Some(&ours(&seen))).is_empty());
}

#[test]
fn c55_vfio_needs_an_iommu() {
    let vfio = want(json!({"vfGroups": [{"resourceName": "r", "deviceType": "vfio-pci", "vfRange": "0-3"}]}));
    let seen = adapter(4);
    let due_ = with(&vfio, &seen, Some(&ours(&seen)));
    assert!(due_.vfs.iter().all(|vf| vf.rebind == Some(VfDriver::Vfio) && vf.guid.is_none()));
    let mut without = adapter(4);
    without.vfs.iter_mut().for_each(|vf| vf.has_iommu_group = false);
    let fault =
        plan_changes(Some(&vfio), &without, Some(&ours(&without)), &guids(), &BTreeSet::new()).unwrap_err();
    assert!(fault.to_string().contains("IOMMU"), "{fault}");
    // Bound and wanted for the kernel again.
    let mut bound = adapter(4);
    bound.vfs[2].driver = Some("vfio-pci".to_owned());
    let back = with(&want(json!({})), &bound, Some(&ours(&bound)));
    assert_eq!(
        back.vfs.iter().map(|vf| (vf.index, vf.rebind)).collect::<Vec<_>>(),
        [(2, Some(VfDriver::Kernel))]
    );
}

#[test]
fn c72_a_driver_that_is_away_under_a_pod_drains_nobody() {
    let mut seen = adapter(4);
    seen.vfs[0].driver = None;
    let held = BTreeSet::from([seen.vfs[0].pci]);
    let under = plan_changes(Some(&want(json!({}))), &seen, Some(&ours(&seen)), &guids(), &held).unwrap();
    assert!(under.is_empty(), "{under:?}");
    // Nobody has it: it gets its driver back.
    let free = with(&want(json!({})), &seen, Some(&ours(&seen)));
    assert_eq!(free.vfs[0].rebind, Some(VfDriver::Kernel));
}

#[test]
fn the_mtu_is_raised_and_never_lowered() {
    let seen = adapter(4);
    assert_eq!(with(&want(json!({"mtu": 4092})), &seen, Some(&ours(&seen))).mtu, Some(4092));
    assert_eq!(with(&want(json!({"mtu": 1500})), &seen, Some(&ours(&seen))).mtu, None);
}

#[test]
fn what_a_policy_did_is_undone_step_by_step_and_what_no_policy_selects_is_never_touched() {
    let nobody = BTreeSet::new();
    let undo = |seen: &ObservedAdapter, record: Option<&AdapterOriginalState>| {
        plan_changes(None, seen, record, &guids(), &nobody).unwrap()
    };
    assert!(undo(&adapter(4), None).is_empty(), "functions of somebody else");
    let mut seen = adapter(4);
    let before =
        AdapterOriginalState { vfs: 0, mtu: Some(2044), up: Some(false), external: false, names: Vec::new() };
    let first = undo(&seen, Some(&before));
    assert_eq!((first.vf_count, first.disrupted_vfs.len(), first.remove_original_state), (Some(0), 4, false));
    seen.vfs.clear();
    seen.interface = Some(AdapterInterface { index: 7, mtu: 4092, up: true });
    let second = undo(&seen, Some(&before));
    assert_eq!((second.mtu, second.up, second.remove_original_state), (Some(2044), Some(false), false));
    seen.interface = Some(AdapterInterface { index: 7, mtu: 2044, up: false });
    assert_eq!(
        undo(&seen, Some(&before)),
        AdapterChanges { remove_original_state: true, ..AdapterChanges::default() }
    );
}

#[test]
fn functions_of_somebody_else_are_used_and_left() {
    let external = want(json!({"externallyManaged": true}));
    let seen = adapter(8);
    let first = with(&external, &seen, None);
    assert_eq!(first.original_state.as_ref().map(|record| record.external), Some(true));
    assert_eq!((first.vf_count, first.up, first.mtu), (None, None, None));
    let record = AdapterOriginalState::capture(&seen, true);
    assert!(with(&external, &seen, Some(&record)).is_empty());
    let undo = plan_changes(None, &seen, Some(&record), &guids(), &BTreeSet::new()).unwrap();
    assert_eq!(
        undo,
        AdapterChanges { remove_original_state: true, ..AdapterChanges::default() },
        "only forgotten"
    );
    let more = want(json!({"externallyManaged": true, "numVfs": 9}));
    plan_changes(Some(&more), &seen, Some(&record), &guids(), &BTreeSet::new()).unwrap_err();
}

#[test]
fn only_what_is_right_is_given_out() {
    let mut seen = adapter(4);
    seen.vfs[2].guid = None;
    seen.vfs[2].assigned = None;
    let want = want(json!({}));
    let group: &DesiredVfGroup = &want.groups[0];
    let right: Vec<_> = seen
        .vfs
        .iter()
        .filter(|vf| is_vf_ready(&want, &seen, vf, group, &guids()))
        .map(|vf| vf.index)
        .collect();
    assert_eq!(right, [0, 1, 3]);
}

#[test]
fn a_state_that_was_edited_by_hand_is_named_and_the_rest_stands() {
    let spec = json!({
        "interfaces": [
            {"pciAddress": "nowhere", "numVfs": 1},
            {"pciAddress": "0000:86:00.0", "numVfs": 2, "vfGroups": [{"vfRange": "0", "resourceName": "r"}]},
            {"pciAddress": A, "numVfs": 3, "linkType": "IB"},
        ],
        "system": {"rdmaMode": "exclusive", "allowReboot": true},
    });
    let wanted = DesiredNodeConfig::from_spec(&serde_json::from_value(spec).unwrap());
    assert_eq!((wanted.adapters.len(), wanted.faults.len()), (1, 2));
    assert_eq!(wanted.adapters[&pci(A)].link_layer, Some(LinkLayer::InfiniBand));
    assert_eq!((wanted.rdma_mode, wanted.allow_reboot), (Some(NetnsMode::Exclusive), true));
}

mod firmware {
    use super::{adapter, want};
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

    fn usual(count: &str) -> ferroband_kernel::firmware::FirmwareSettings {
        settings(&[
            ("NUM_OF_VFS", count, count),
            ("SRIOV_EN", "True(1)", "True(1)"),
            ("LINK_TYPE_P1", "IB(1)", "IB(1)"),
        ])
    }

    fn set(pairs: &[(&str, &str)], reboot: bool) -> FirmwarePlan {
        FirmwarePlan {
            set: pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
            needs_reboot: reboot,
        }
    }

    fn one(
        want: &DesiredAdapter,
        seen: &ObservedAdapter,
        settings: &ferroband_kernel::firmware::FirmwareSettings,
    ) -> FirmwarePlan {
        plan_firmware(&[(seen, Some(want))], settings).unwrap()
    }

    #[test]
    fn c56_another_link_is_set_and_takes_a_reboot() {
        let ethernet = want(json!({"linkType": "eth"}));
        let seen = adapter(0);
        assert!(needs_firmware(&[(&seen, Some(&ethernet))]));
        assert_eq!(one(&ethernet, &seen, &usual("16")), set(&[("LINK_TYPE_P1", "ETH")], true));
        // Set before, but not booted yet: not set again.
        let next = settings(&[
            ("NUM_OF_VFS", "16", "16"),
            ("SRIOV_EN", "True(1)", "True(1)"),
            ("LINK_TYPE_P1", "IB(1)", "ETH(2)"),
        ]);
        assert_eq!(one(&ethernet, &seen, &next), set(&[], true));
    }

    #[test]
    fn c57_a_card_of_one_kind_cannot_change() {
        let only = settings(&[("NUM_OF_VFS", "16", "16"), ("SRIOV_EN", "True(1)", "True(1)")]);
        let seen = adapter(0);
        let fault = plan_firmware(&[(&seen, Some(&want(json!({"linkType": "eth"}))))], &only).unwrap_err();
        assert!(fault.cause.contains("does not support a change"), "{fault}");
        let same = want(json!({"linkType": "IB"}));
        assert!(!needs_firmware(&[(&seen, Some(&same))]));
        assert_eq!(one(&same, &seen, &only), FirmwarePlan::default());
        let vpi = settings(&[
            ("NUM_OF_VFS", "16", "16"),
            ("SRIOV_EN", "True(1)", "True(1)"),
            ("LINK_TYPE_P1", "VPI(3)", "VPI(3)"),
        ]);
        let fault = plan_firmware(&[(&seen, Some(&want(json!({"linkType": "eth"}))))], &vpi).unwrap_err();
        assert!(fault.cause.contains("Unknown link type"), "{fault}");
    }

    #[test]
    fn c58_more_than_enough_is_enough() {
        assert_eq!(one(&want(json!({"numVfs": 8})), &adapter(0), &usual("16")), FirmwarePlan::default());
    }

    #[test]
    fn c59_the_ports_of_a_card_share_one_number() {
        let mut second = adapter(0);
        second.pci = "0000:3b:00.1".parse().unwrap();
        second.total_vfs = 2;
        let (a, b) = (want(json!({"numVfs": 4})), want(json!({"numVfs": 8})));
        let first = ObservedAdapter { total_vfs: 2, ..adapter(0) };
        let due = plan_firmware(&[(&first, Some(&a)), (&second, Some(&b))], &usual("2")).unwrap();
        assert_eq!(due, set(&[("NUM_OF_VFS", "8")], true));
    }

    #[test]
    fn c60_what_the_next_boot_would_take_is_kept_without_one() {
        let next = settings(&[("NUM_OF_VFS", "4", "0"), ("SRIOV_EN", "True(1)", "False(0)")]);
        assert_eq!(
            one(&want(json!({})), &adapter(0), &next),
            set(&[("NUM_OF_VFS", "4"), ("SRIOV_EN", "True")], false)
        );
        let off = settings(&[("NUM_OF_VFS", "4", "4"), ("SRIOV_EN", "False(0)", "False(0)")]);
        assert_eq!(one(&want(json!({})), &adapter(0), &off), set(&[("SRIOV_EN", "True")], true));
    }

    #[test]
    fn c62_locked_kernels_and_cards_with_a_mind_of_their_own() {
        assert!(
            lockdown_fault(Some("none [integrity] confidentiality")).unwrap().cause.contains("integrity")
        );
        assert_eq!(lockdown_fault(Some("[none] integrity confidentiality")), None);
        assert_eq!(lockdown_fault(None), None);
        let dpu = settings(&[
            ("INTERNAL_CPU_MODEL", "EMBEDDED_CPU(1)", "x"),
            ("INTERNAL_CPU_OFFLOAD_ENGINE", "ENABLED(0)", "x"),
        ]);
        let seen = adapter(0);
        assert!(plan_firmware(&[(&seen, Some(&want(json!({}))))], &dpu).unwrap_err().cause.contains("DPU"));
    }

    #[test]
    fn what_is_managed_elsewhere_is_not_asked_for() {
        let external = want(json!({"externallyManaged": true, "linkType": "eth", "numVfs": 99}));
        assert!(!needs_firmware(&[(&adapter(0), Some(&external))]));
        assert_eq!(adapter(0).link_layer, Some(LinkLayer::InfiniBand));
    }
}
