//! Tests of the planned firmware settings.

use super::{desired_adapter, observed_adapter};
use crate::configure::{
    DesiredAdapter, ObservedAdapter,
    diff::{FirmwarePlan, firmware_fault, needs_firmware, plan_firmware},
    observe::lockdown_fault,
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
    let fault =
        plan_firmware(&[(&observed, Some(&desired_adapter(json!({"linkType": "eth"}))))], &only).unwrap_err();
    assert!(fault.cause.contains("does not support a change"), "{fault}");
    let same = desired_adapter(json!({"linkType": "IB"}));
    assert!(!needs_firmware(&[(&observed, Some(&same))]));
    assert_eq!(plan(&same, &observed, &only), FirmwarePlan::default());
    let vpi = settings(&[
        ("NUM_OF_VFS", "16", "16"),
        ("SRIOV_EN", "True(1)", "True(1)"),
        ("LINK_TYPE_P1", "VPI(3)", "VPI(3)"),
    ]);
    let fault =
        plan_firmware(&[(&observed, Some(&desired_adapter(json!({"linkType": "eth"}))))], &vpi).unwrap_err();
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
    let changes = plan_firmware(&[(&first, Some(&a)), (&second, Some(&b))], &default_settings("2")).unwrap();
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
    assert!(lockdown_fault(Some("none [integrity] confidentiality")).unwrap().cause.contains("integrity"));
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

#[test]
fn missing_mstconfig_is_reported_with_the_helm_value_to_set() {
    let fault = firmware_fault(observed_adapter(0).pci, "", "mstconfig is not installed");
    assert!(fault.cause.ends_with("mstconfig is not installed"), "{fault}");
    assert!(fault.remedy.contains("node.firmware=true"), "{fault}");
}
