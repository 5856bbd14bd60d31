//! Determines from the steps of a plan which partitions its ports must be members of.

use ferroband_api::annotation::IbKubernetesMark;
use ferroband_attach::plan::{Attachment, StepKind};
use ferroband_config::{capabilities, partition::pkey_text};
use ferroband_model::{PodPartitionRequest, RequestedPKey, RequestedPort};

/// Returns one request for each virtual function and for each IPoIB child interface with a P_Key.
pub fn partition_requests(attachments: &[Attachment]) -> Vec<PodPartitionRequest> {
    let mut requests = Vec::new();
    for (position, attachment) in attachments.iter().enumerate() {
        for step in &attachment.steps {
            let (port, pkey, limited) = match &step.kind {
                StepKind::IbSriov { vf, .. } => {
                    (RequestedPort::Function { pci: vf.device, guid: vf.guid }, vf.pkey, vf.limited)
                }
                // A child without a P_Key uses its parent's partition, which is not managed.
                StepKind::Ipoib { child, .. } => match child.pkey {
                    Some(key) => (
                        RequestedPort::Parent(child.parent.clone()),
                        RequestedPKey::new(key.base()),
                        child.limited,
                    ),
                    None => continue,
                },
                _ => continue,
            };
            let (network, ifname) = (attachment.network.clone(), attachment.ifname.clone());
            requests.push(PodPartitionRequest { attachment: position, network, ifname, pkey, limited, port });
        }
    }
    requests
}

/// Returns what ib-kubernetes would write into the networks annotation for each virtual function, with the position
/// of its attachment. The GUID is filled in when it is known.
pub fn ib_kubernetes_marks(
    attachments: &[Attachment],
    requests: &[PodPartitionRequest],
) -> Vec<(usize, IbKubernetesMark)> {
    let functions = requests.iter().filter(|request| matches!(request.port, RequestedPort::Function { .. }));
    let mark = |request: &PodPartitionRequest| {
        let steps = &attachments.get(request.attachment)?.steps;
        // ib-kubernetes repeats the P_Key as the network's configuration spells it.
        let pkey = match steps.iter().find_map(|step| pkey_text(&step.config)) {
            Some(text) => text.to_owned(),
            None => request.pkey.map(|key| format!("{:#x}", key.number())).unwrap_or_default(),
        };
        let mut declared = steps.iter().flat_map(|step| capabilities(&step.config));
        let has_guid_capability = declared.any(|capability| capability == "infinibandGUID");
        let mark = IbKubernetesMark { position: 0, guid: String::new(), pkey, has_guid_capability };
        Some((request.attachment, mark))
    };
    functions.filter_map(mark).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::attachment::build_steps, *};
    use ferroband_model::{Fault, FaultCode};
    use serde_json::{Value, json};

    fn requests_of(config: Value) -> Result<Vec<PodPartitionRequest>, Fault> {
        let config = config.as_object().unwrap().clone();
        Ok(partition_requests(&[Attachment {
            network: "default/ib".into(),
            ifname: "net1".into(),
            steps: build_steps("default/ib", [config].into_iter())?,
            ..Attachment::default()
        }]))
    }

    fn requests(pkey: Value) -> Result<Vec<PodPartitionRequest>, Fault> {
        requests_of(json!({"type": "ib-sriov", "deviceID": "0000:3b:00.2", "pkey": pkey}))
    }

    #[test]
    fn p_keys_are_parsed_and_invalid_ones_are_rejected_with_the_valid_range() {
        for wrong in [json!(0), json!("0x7fff"), json!("0x8000"), json!(70000), json!("abc")] {
            let fault = requests(wrong.clone()).expect_err(&wrong.to_string());
            assert_eq!(fault.code, FaultCode::InvalidConfig);
            assert!(fault.to_string().contains("0x0001 to 0x7ffe"), "{fault}");
        }
        for right in [json!(1000), json!("0x3e8"), json!("1000")] {
            assert_eq!(requests(right).unwrap()[0].table_entry().unwrap().value(), 0x83e8);
        }
        assert_eq!(requests(json!("")).unwrap()[0].pkey, None);
    }

    // Case: partitions 39
    #[test]
    fn limited_membership_has_no_full_bit() {
        let config = json!({"type": "ipoib", "master": "ib0", "pkey": "0x5", "membership": "limited"});
        let requests = requests_of(config).unwrap();
        assert_eq!(requests[0].table_entry().unwrap().value(), 5);
        assert_eq!(requests[0].port, RequestedPort::Parent("ib0".into()));
        let wrong = json!({"type": "ipoib", "master": "ib0", "pkey": "0x5", "membership": "some"});
        assert!(requests_of(wrong).is_err());
        assert!(requests_of(json!({"type": "ipoib", "master": "ib0"})).unwrap().is_empty());
    }
}
