//! Keys of a network configuration in any letter case: the daemon must check the value that the plugin uses.

use super::{Value, facts, json, plan, plan_with};
use crate::kubelet::PodDevices;
use ferroband_attach::plan::{Plan, StepKind};
use ferroband_model::FaultCode;
use ferroband_model::RequestedPort;

/// The key `pkey` with the value 1000, in forms that Go's encoding/json decodes to that value. U+212A (KELVIN
/// SIGN) folds to `k`.
const FORMS_OF_1000: [&str; 8] = [
    r#""pkey": "0x3e8""#,
    r#""PKey": "0x3e8""#,
    r#""PKEY": 1000"#,
    "\"p\u{212a}ey\": \"1000\"",
    r#""pkey": "0x5", "PKEY": "0x3e8""#,
    r#""PKEY": "0x5", "pkey": "0x3e8""#,
    r#""pkey": "0x5", "pkey": "0x3e8""#,
    r#""pKey": "0x3e8", "pkey": null"#,
];

fn plan_text(text: &str) -> Plan {
    plan("a", &[("a", Value::from(text))], json!({})).unwrap().plan
}

/// Returns the P_Key that is checked against Partition objects, for each port of the pod.
fn checked_keys(plan: &Plan) -> Vec<Option<u16>> {
    let requests = &plan.partitions;
    requests.iter().map(|request| request.pkey.map(|key| key.number())).collect()
}

#[test]
fn pkey_of_an_ipoib_child_is_checked_in_any_letter_case() {
    for form in FORMS_OF_1000 {
        let plugin = format!(r#"{{"type": "ipoib", "master": "ib0", {form}}}"#);
        for text in [plugin.clone(), format!(r#"{{"plugins": [{plugin}]}}"#)] {
            let plan = plan_text(&text);
            let StepKind::Ipoib { child, .. } = &plan.attachments[1].steps[0].kind else { panic!("{text}") };
            let used = child.pkey.map(|key| key.base());
            assert_eq!((used, checked_keys(&plan)), (Some(0x3e8), vec![Some(0x3e8)]), "{text}");
        }
    }
}

#[test]
fn pkey_of_a_function_is_checked_in_any_letter_case() {
    for form in FORMS_OF_1000 {
        let text = format!(
            r#"{{"PLUGINS": [{{"Type": "ib-sriov", "deviceID": "0000:3b:00.2", {form}, "Membership": "limited"}}]}}"#
        );
        let plan = plan_text(&text);
        assert_eq!(checked_keys(&plan), [Some(0x3e8)], "{text}");
        assert!(plan.partitions[0].limited, "{text}");
    }
}

#[test]
fn guid_of_the_annotation_replaces_that_of_the_definition_in_any_letter_case() {
    let guid = |last: &str| format!("02:00:00:00:00:00:00:{last}");
    let config = json!({"type": "ib-sriov", "deviceID": "0000:3b:00.2",
        "ARGS": {"CNI": {"guid": guid("01"), "Other": "x"}}});
    for key in ["guid", "GUID", "Guid"] {
        let annotation = json!([{"name": "a", "cni-args": {key: guid("02")}}]).to_string();
        let plan = plan(&annotation, &[("a", config.clone())], json!({})).unwrap().plan;
        let request = &plan.partitions[0];
        let RequestedPort::Function { guid: Some(used), .. } = request.port else { panic!("{request:?}") };
        assert_eq!(used.to_string(), guid("02"), "{key}");
        // The plugin's standard input contains one `guid` only.
        let written = Value::Object(plan.attachments[1].steps[0].config.clone()).to_string();
        assert!(!written.contains(&guid("01")) && written.contains("Other"), "{written}");
    }
    let twice =
        format!(r#"[{{"name": "a", "cni-args": {{"guid": "{}", "GUID": "{}"}}}}]"#, guid("03"), guid("04"));
    let plan = plan(&twice, &[("a", config)], json!({})).unwrap().plan;
    let RequestedPort::Function { guid: Some(used), .. } = plan.partitions[0].port else { panic!() };
    assert_eq!(used.to_string(), guid("04"), "the last one of equal keys is used");
}

#[test]
fn device_of_the_kubelet_replaces_that_of_the_definition_in_any_letter_case() {
    let allocated = "0000:3b:00.4";
    for key in ["deviceID", "deviceid", "DEVICEID", "pcibusid"] {
        for kind in ["ib-sriov", "sriov"] {
            let config = json!({"type": kind, key: "0000:3b:00.9", "capabilities": {"deviceID": true},
                "runtimeconfig": {"deviceID": "0000:3b:00.9"}});
            let mut devices = PodDevices::default();
            devices.add("a.b/c", [allocated.to_owned()]);
            let planned = plan_with(&facts("a"), &[("a:a.b/c", config)], json!({}), &devices).unwrap();
            let step = &planned.plan.attachments[1].steps[0];
            if let StepKind::IbSriov { vf, .. } = &step.kind {
                assert_eq!(vf.device.to_string(), allocated, "{key}");
            }
            let written = Value::Object(step.config.clone()).to_string();
            assert!(!written.contains("0000:3b:00.9"), "{key}: {written}");
        }
    }
}

#[test]
fn ranges_of_ipam_are_read_in_any_letter_case() {
    for text in [
        r#"{"type": "ipoib", "master": "ib0", "IPAM": {"Type": "whereabouts", "RANGE": "10.9.0.0/24"}}"#,
        r#"{"type": "ipoib", "master": "ib0", "ipam": {"type": "whereabouts", "range": "10.8.0.0/24"}, "IPAM": {"RANGE": "10.9.0.0/24"}}"#,
    ] {
        let planned = plan("a", &[("a", Value::from(text))], json!({})).unwrap();
        let [request] = planned.ip_requests.as_slice() else { panic!("{text}") };
        assert_eq!(request.requests[0].pools[0].to_string(), "10.9.0.0/24", "{text}");
    }
    let spiderpool = r#"{"type": "ipoib", "master": "ib0", "Ipam": {"TYPE": "spiderpool"}}"#;
    let fault = plan("a", &[("a", Value::from(spiderpool))], json!({})).unwrap_err();
    assert_eq!(fault.code, FaultCode::NoPool, "{fault}");
}
