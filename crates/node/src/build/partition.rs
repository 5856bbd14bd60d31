//! Extracts from the steps of a plan the partitions that its ports must be members of. The result is typed; no later
//! stage reads the configuration for it.

use ferroband_api::annotation::IbKubernetesMark;
use ferroband_attach::plan::{Attachment, StepKind};
use ferroband_model::{
    Fault, FaultCode, PKeyBase, PodPartitionRequest, RequestedPort, config_object::get_key,
};
use serde_json::{Map, Value};

/// Returns one request for each virtual function and for each IPoIB child interface with a P_Key.
pub fn partition_requests(attachments: &[Attachment]) -> Result<Vec<PodPartitionRequest>, Fault> {
    let mut requests = Vec::new();
    for (position, attachment) in attachments.iter().enumerate() {
        for step in &attachment.steps {
            // The P_Key of a child interface is the one that the step creates it with. It is not read from
            // the configuration a second time.
            let (port, pkey) = match &step.kind {
                StepKind::IbSriov { vf, .. } => (
                    RequestedPort::Function { pci: vf.device, guid: vf.guid },
                    get_key(&step.config, "pkey").cloned(),
                ),
                StepKind::Ipoib { child, .. } => (
                    RequestedPort::Parent(child.parent.clone()),
                    child.pkey.map(|key| Value::from(key.to_string())),
                ),
                _ => continue,
            };
            let pkey = parse_pkey(attachment, pkey.as_ref())?;
            let limited = parse_limited(attachment, get_key(&step.config, "membership"))?;
            // A child without a P_Key uses its parent's partition, which is not managed.
            if pkey.is_none() && matches!(port, RequestedPort::Parent(_)) {
                continue;
            }
            requests.push(PodPartitionRequest {
                attachment: position,
                network: attachment.network.clone(),
                ifname: attachment.ifname.clone(),
                pkey,
                limited,
                port,
            });
        }
    }
    Ok(requests)
}

/// Returns what ib-kubernetes would write into the networks annotation for each virtual function, with the position
/// of its attachment. The GUID is filled in when it is known.
pub fn ib_kubernetes_marks(
    attachments: &[Attachment],
    requests: &[PodPartitionRequest],
) -> Vec<(usize, IbKubernetesMark)> {
    let has_capability =
        |config: &Map<String, Value>| get_key(config, "capabilities")?.get("infinibandGUID")?.as_bool();
    let functions = requests.iter().filter(|request| matches!(request.port, RequestedPort::Function { .. }));
    let mark = |request: &PodPartitionRequest| {
        let steps = &attachments.get(request.attachment)?.steps;
        // ib-kubernetes repeats the P_Key as the network's configuration spells it.
        let pkey = match steps.iter().find_map(|step| get_key(&step.config, "pkey")) {
            Some(Value::String(text)) => text.clone(),
            _ => request.pkey.map(|key| format!("{:#x}", key.number())).unwrap_or_default(),
        };
        let has_guid_capability = steps.iter().any(|step| has_capability(&step.config) == Some(true));
        let mark = IbKubernetesMark { position: 0, guid: String::new(), pkey, has_guid_capability };
        Some((request.attachment, mark))
    };
    functions.filter_map(mark).collect()
}

fn parse_pkey(attachment: &Attachment, value: Option<&Value>) -> Result<Option<PKeyBase>, Fault> {
    PKeyBase::from_value(value.unwrap_or(&Value::Null)).map_err(|error| {
        Fault::new(
            FaultCode::InvalidConfig,
            format!("network {}", attachment.network),
            error.to_string(),
            "correct `pkey` in the network's configuration",
        )
    })
}

fn parse_limited(attachment: &Attachment, value: Option<&Value>) -> Result<bool, Fault> {
    match value.and_then(Value::as_str) {
        None | Some("" | "full") => Ok(false),
        Some("limited") => Ok(true),
        Some(other) => Err(Fault::new(
            FaultCode::InvalidConfig,
            format!("network {}", attachment.network),
            format!("invalid membership {other:?}: must be full or limited"),
            "correct `membership` in the network's configuration",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroband_attach::plan::PlanStep;
    use serde_json::json;

    fn attachments(config: Value) -> [Attachment; 1] {
        let config = config.as_object().unwrap().clone();
        let by = StepKind::from_config(&config).unwrap();
        [Attachment {
            network: "default/ib".into(),
            ifname: "net1".into(),
            steps: vec![PlanStep { config, kind: by }],
            ..Attachment::default()
        }]
    }

    fn requests(pkey: Value) -> Result<Vec<PodPartitionRequest>, Fault> {
        partition_requests(&attachments(
            json!({"type": "ib-sriov", "deviceID": "0000:3b:00.2", "pkey": pkey}),
        ))
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
        let requests = partition_requests(&attachments(config)).unwrap();
        assert_eq!(requests[0].table_entry().unwrap().value(), 5);
        assert_eq!(requests[0].port, RequestedPort::Parent("ib0".into()));
        let wrong = json!({"type": "ipoib", "master": "ib0", "pkey": "0x5", "membership": "some"});
        assert!(partition_requests(&attachments(wrong)).is_err());
        assert!(
            partition_requests(&attachments(json!({"type": "ipoib", "master": "ib0"}))).unwrap().is_empty()
        );
    }
}
