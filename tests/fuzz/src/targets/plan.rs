//! From a network definition and an annotation to the plan of a pod.

use ferroband_api::annotation::NetworkSelection;
use ferroband_api::cncf::NetworkAttachmentDefinition;
use ferroband_attach::plan::StepKind;
use ferroband_config::NetworkConfig;
use ferroband_model::PodRef;
use ferroband_node::build::build_plan;
use ferroband_node::caches::PodFacts;
use ferroband_node::kubelet::PodDevices;
use ferroband_node::resolve::{
    DefaultNetwork, DefaultNetworkChoice, ResolvedAdd, ResolvedNetwork, ResolvedPod,
};
use serde_json::{Map, json};
use std::sync::Arc;

/// The device that the kubelet allocated to the pod.
pub const ALLOCATED: &str = "0000:3b:00.2";

/// An annotation and the configuration of the definitions that it names, separated by a NUL. Each network is planned, and
/// a plan contains no device that was not allocated.
pub fn plan(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Some((annotation, config)) = text.split_once('\0') else { return };
    let Ok(selections) = NetworkSelection::parse_networks(annotation, "default") else { return };
    let definition = json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": "a", "annotations": {"k8s.v1.cni.cncf.io/resourceName": "x/vf"}},
        "spec": {"config": config},
    });
    let Ok(definition) = serde_json::from_value::<NetworkAttachmentDefinition>(definition) else { return };
    let networks: Result<Vec<_>, _> = selections
        .into_iter()
        .take(8)
        .map(|selection| ResolvedNetwork::from_definition(selection, &definition, &[]))
        .collect();
    let networks = match networks {
        Ok(networks) => networks,
        Err(fault) => return assert!(!fault.remedy.is_empty()),
    };
    let Ok(default) = NetworkConfig::parse("k8s", r#"{"name": "k8s", "type": "bridge"}"#, "k8s") else {
        return;
    };
    let mut devices = PodDevices::default();
    devices.add("x/vf", [ALLOCATED.to_owned()]);
    let pod = PodRef { namespace: "default".into(), name: "p".into(), uid: "u".into() };
    let pod = ResolvedPod {
        pod,
        facts: Arc::new(PodFacts::default()),
        container: "c1".into(),
        pools: None,
        flat_file: Map::new(),
    };
    let planned = build_plan(&ResolvedAdd {
        pod,
        ifname: "eth0".into(),
        default: DefaultNetworkChoice::Wrapped(DefaultNetwork { file: "k".into(), network: default }),
        runtime_config: Map::new(),
        networks,
        devices,
    });
    match planned {
        Ok(planned) => {
            for step in planned.plan.attachments.iter().flat_map(|attachment| &attachment.steps) {
                if let StepKind::IbSriov { vf, .. } = &step.kind {
                    assert_eq!(vf.device.to_string(), ALLOCATED, "a device of somebody else");
                }
            }
        }
        Err(fault) => assert!(!fault.remedy.is_empty() && !fault.what.is_empty()),
    }
}
