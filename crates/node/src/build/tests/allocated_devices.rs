//! Devices in configurations and annotations: a pod uses only what was allocated to it.

use super::{Value, facts, json, plan_with};
use crate::kubelet::PodDevices;
use ferroband_attach::plan::StepKind;
use ferroband_model::{Fault, FaultCode};

const OWN: &str = "0000:3b:00.2";
const OF_ANOTHER_POD: &str = "0000:3b:00.3";
const PHYSICAL: &str = "0000:3b:00.0";

fn devices(id: &str) -> PodDevices {
    let mut devices = PodDevices::default();
    devices.add("x/vf", [id.to_owned()]);
    devices
}

/// Plans a pod that has the device [`OWN`] and a network without a resource.
fn plan(annotation: &str, config: &Value) -> Result<super::PlanOutput, Fault> {
    plan_with(&facts(annotation), &[("a", config.clone())], json!({}), &devices(OWN))
}

#[test]
fn a_definition_names_only_devices_of_the_pod() {
    for kind in ["ib-sriov", "rdma", "sriov", "host-device"] {
        for key in ["deviceID", "DEVICEID", "pciBusID", "pcibusid"] {
            for device in [OF_ANOTHER_POD, PHYSICAL] {
                let fault = plan("a", &json!({"type": kind, key: device})).unwrap_err();
                assert_eq!(fault.code, FaultCode::DeviceNotAllocated, "{kind} {key} {device}: {fault}");
                assert!(fault.what.contains("default/a") && fault.cause.contains(device), "{fault}");
                let chain = json!({"plugins": [{"type": "tuning"}, {"type": kind, key: device}]});
                assert_eq!(plan("a", &chain).unwrap_err().code, FaultCode::DeviceNotAllocated);
            }
            plan("a", &json!({"type": kind, key: OWN})).unwrap();
        }
    }
    let runtime = json!({"type": "ib-sriov", "runtimeConfig": {"deviceID": OF_ANOTHER_POD}});
    assert_eq!(plan("a", &runtime).unwrap_err().code, FaultCode::DeviceNotAllocated);
}

#[test]
fn an_annotation_names_only_devices_of_the_pod() {
    let annotation = |device: &str| json!([{"name": "a", "deviceID": device}]).to_string();
    for kind in ["ib-sriov", "sriov"] {
        let config = json!({"type": kind, "capabilities": {"deviceID": true}});
        let fault = plan(&annotation(OF_ANOTHER_POD), &config).unwrap_err();
        assert_eq!(fault.code, FaultCode::DeviceNotAllocated, "{kind}: {fault}");
        plan(&annotation(OWN), &config).unwrap();
    }
    // Without the capability no plugin gets the device.
    plan(&annotation(OF_ANOTHER_POD), &json!({"type": "macvlan"})).unwrap();
}

#[test]
fn a_physical_function_is_used_only_if_it_was_allocated() {
    let config = json!({"plugins": [{"type": "macvlan"}, {"type": "rdma", "deviceID": PHYSICAL}]});
    let networks = [("a", config)];
    let with = |devices: &PodDevices| plan_with(&facts("a"), &networks, json!({}), devices);
    assert_eq!(with(&devices(OWN)).unwrap_err().code, FaultCode::DeviceNotAllocated);
    let planned = with(&devices(PHYSICAL)).unwrap();
    assert!(matches!(&planned.plan.attachments[1].steps[1].kind, StepKind::Rdma { device: Some(_) }));
}

#[test]
fn addresses_of_functions_are_equal_in_any_letter_case() {
    let config = json!({"type": "ib-sriov", "deviceID": "0000:3B:00.2"});
    plan("a", &config).unwrap();
}

#[test]
fn a_refused_network_requests_no_membership() {
    let config = json!({"type": "ib-sriov", "deviceID": OF_ANOTHER_POD, "pkey": "0x3e8"});
    // The plan carries the memberships, so without a plan there are none.
    plan("a", &config).unwrap_err();
    let own = plan("a", &json!({"type": "ib-sriov", "deviceID": OWN, "pkey": "0x3e8"})).unwrap();
    assert_eq!(own.plan.partitions.len(), 1);
}
