//! What a plan asks of partitions. Pure.

use ferroband_attach::plan::{Attachment, Plan, StepKind};
use ferroband_model::{Fault, FaultCode, Guid, PciAddress};
use ferroband_partition::PKeyBase;
use serde_json::Value;

/// A port of the pod, and the partition that it is to be in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodPartitionRequest {
    /// Position of the attachment in the plan.
    pub attachment: usize,
    /// The network, `<namespace>/<name>`.
    pub network: String,
    /// The interface in the pod.
    pub ifname: String,
    /// The partition; nothing for a function that is to be in none of ours.
    pub key: Option<PKeyBase>,
    /// A limited member.
    pub limited: bool,
    /// The port.
    pub port: RequestedPort,
}

/// Which port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestedPort {
    /// A function's own.
    Function {
        /// The function.
        pci: PciAddress,
        /// The GUID that the pod asks for, if it does.
        guid: Option<Guid>,
    },
    /// That of the adapter whose IPoIB interface this is; it is shared.
    Parent(String),
}

impl PodPartitionRequest {
    /// Everything that a plan asks.
    pub fn from_plan(plan: &Plan) -> Result<Vec<Self>, Fault> {
        let mut all = Vec::new();
        for (position, attachment) in plan.attachments.iter().enumerate() {
            for step in &attachment.steps {
                let port = match &step.kind {
                    StepKind::IbSriov { vf, .. } => RequestedPort::Function { pci: vf.device, guid: vf.guid },
                    StepKind::Ipoib { child, .. } => RequestedPort::Parent(child.parent.clone()),
                    _ => continue,
                };
                let key = parse_pkey(attachment, step.config.get("pkey"))?;
                let limited = parse_limited(attachment, step.config.get("membership"))?;
                // A child without a key of its own is in its parent's partition, which is not ours to change.
                if key.is_none() && matches!(port, RequestedPort::Parent(_)) {
                    continue;
                }
                all.push(Self {
                    attachment: position,
                    network: attachment.network.clone(),
                    ifname: attachment.ifname.clone(),
                    key,
                    limited,
                    port,
                });
            }
        }
        Ok(all)
    }

    /// The key as the port's table shows it.
    pub fn table_value(&self) -> Option<u16> {
        let key = self.key?;
        Some(if self.limited { key.limited() } else { key.full() }.value())
    }
}

fn parse_pkey(attachment: &Attachment, value: Option<&Value>) -> Result<Option<PKeyBase>, Fault> {
    PKeyBase::from_value(value.unwrap_or(&Value::Null)).map_err(|error| {
        Fault::new(
            FaultCode::InvalidConfig,
            format!("network {}", attachment.network),
            error.to_string(),
            "correct pkey in the network's configuration",
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
            format!("membership {other:?} is neither full nor limited"),
            "correct membership in the network's configuration",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroband_attach::plan::PlanStep;
    use ferroband_model::PodRef;
    use serde_json::json;

    fn plan(config: Value) -> Plan {
        let config = config.as_object().unwrap().clone();
        let by = StepKind::from_config(&config).unwrap();
        let attachment = Attachment {
            network: "default/ib".into(),
            ifname: "net1".into(),
            steps: vec![PlanStep { config, kind: by }],
            ..Attachment::default()
        };
        let pod = PodRef { namespace: "default".into(), name: "p".into(), uid: "u".into() };
        Plan { pod, attachments: vec![attachment], membership: false }
    }

    fn asked(pkey: Value) -> Result<Vec<PodPartitionRequest>, Fault> {
        PodPartitionRequest::from_plan(&plan(
            json!({"type": "ib-sriov", "deviceID": "0000:3b:00.2", "pkey": pkey}),
        ))
    }

    #[test]
    fn bad_input_p_keys_are_refused_with_the_range_or_brought_into_one_form() {
        for wrong in [json!(0), json!("0x7fff"), json!("0x8000"), json!(70000), json!("abc")] {
            let fault = asked(wrong.clone()).expect_err(&wrong.to_string());
            assert_eq!(fault.code, FaultCode::InvalidConfig);
            assert!(fault.to_string().contains("0x0001 to 0x7ffe"), "{fault}");
        }
        for right in [json!(1000), json!("0x3e8"), json!("1000")] {
            assert_eq!(asked(right).unwrap()[0].table_value(), Some(0x83e8));
        }
        assert_eq!(asked(json!("")).unwrap()[0].key, None);
    }

    #[test]
    fn case_39_limited() {
        let config = json!({"type": "ipoib", "master": "ib0", "pkey": "0x5", "membership": "limited"});
        let asked = PodPartitionRequest::from_plan(&plan(config)).unwrap();
        assert_eq!(asked[0].table_value(), Some(5));
        assert_eq!(asked[0].port, RequestedPort::Parent("ib0".into()));
        let wrong = json!({"type": "ipoib", "master": "ib0", "pkey": "0x5", "membership": "some"});
        assert!(PodPartitionRequest::from_plan(&plan(wrong)).is_err());
        assert!(
            PodPartitionRequest::from_plan(&plan(json!({"type": "ipoib", "master": "ib0"})))
                .unwrap()
                .is_empty()
        );
    }
}
