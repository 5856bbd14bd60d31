//! Extracts the partition requests from a plan. No I/O.

use ferroband_attach::plan::{Attachment, Plan, StepKind};
use ferroband_model::{Fault, FaultCode, Guid, PciAddress, config_object::get_key};
use ferroband_partition::PKeyBase;
use serde_json::Value;

/// A port of a pod and the partition that it must be a member of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodPartitionRequest {
    pub attachment: usize,
    /// Network name, `<namespace>/<name>`.
    pub network: String,
    pub ifname: String,
    /// P_Key of the partition; `None` for a function that must not be in any managed partition.
    pub key: Option<PKeyBase>,
    pub limited: bool,
    pub port: RequestedPort,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestedPort {
    /// The port of a virtual function, which only this pod uses.
    Function {
        pci: PciAddress,
        /// The GUID that the pod requests for the function; `None` if the function keeps its own.
        guid: Option<Guid>,
    },
    /// The port of the adapter with this IPoIB interface. All pods with child interfaces of this interface
    /// share the port.
    Parent(String),
}

impl PodPartitionRequest {
    /// Returns one request for each virtual function and for each IPoIB child interface with a P_Key.
    pub fn from_plan(plan: &Plan) -> Result<Vec<Self>, Fault> {
        let mut requests = Vec::new();
        for (position, attachment) in plan.attachments.iter().enumerate() {
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
                let key = parse_pkey(attachment, pkey.as_ref())?;
                let limited = parse_limited(attachment, get_key(&step.config, "membership"))?;
                // A child without a P_Key uses its parent's partition, which is not managed.
                if key.is_none() && matches!(port, RequestedPort::Parent(_)) {
                    continue;
                }
                requests.push(Self {
                    attachment: position,
                    network: attachment.network.clone(),
                    ifname: attachment.ifname.clone(),
                    key,
                    limited,
                    port,
                });
            }
        }
        Ok(requests)
    }

    /// Returns the entry that the port's P_Key table must contain, including the membership bit. Returns
    /// `None` if the request names no partition.
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

    fn requests(pkey: Value) -> Result<Vec<PodPartitionRequest>, Fault> {
        PodPartitionRequest::from_plan(&plan(
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
            assert_eq!(requests(right).unwrap()[0].table_value(), Some(0x83e8));
        }
        assert_eq!(requests(json!("")).unwrap()[0].key, None);
    }

    // Case: partitions 39
    #[test]
    fn limited_membership_has_no_full_bit() {
        let config = json!({"type": "ipoib", "master": "ib0", "pkey": "0x5", "membership": "limited"});
        let requests = PodPartitionRequest::from_plan(&plan(config)).unwrap();
        assert_eq!(requests[0].table_value(), Some(5));
        assert_eq!(requests[0].port, RequestedPort::Parent("ib0".into()));
        let wrong = json!({"type": "ipoib", "master": "ib0", "pkey": "0x5", "membership": "some"});
        assert!(PodPartitionRequest::from_plan(&plan(wrong)).is_err());
        assert!(
            PodPartitionRequest::from_plan(&plan(json!({"type": "ipoib", "master": "ib0"})))
                .unwrap()
                .is_empty()
        );
    }
}
