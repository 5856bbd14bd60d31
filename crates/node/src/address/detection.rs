//! Asking the wire about addresses: whether somebody else has one, whether a gateway answers.

use ferroband_attach::plan::{AssignedAddresses, Plan};
use ferroband_kernel::{
    Error, Netns,
    probe::{ProbeKind, ProbeOutcome, ProbeRequest, ProbeTimeouts, announce, probe},
};
use ferroband_model::{Fault, FaultCode};
use std::net::IpAddr;

/// What is done about what the wire says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DetectionMode {
    /// Nothing is asked.
    Off,
    /// It is asked after the pod has its network, and told in an event.
    #[default]
    Warn,
    /// It is asked before, and the pod waits for it: an address that somebody else has is put aside and the next is
    /// tried; without its gateway the pod does not start.
    Enforce,
}

/// What is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DetectionSettings {
    /// Whether addresses are somebody else's.
    pub duplicates: DetectionMode,
    /// Whether gateways answer.
    pub gateways: DetectionMode,
}

impl DetectionMode {
    /// By its name; the default for any other.
    fn parse(name: Option<String>) -> Self {
        match name.as_deref().map(str::trim) {
            Some("off") => Self::Off,
            Some("enforce") => Self::Enforce,
            _ => Self::Warn,
        }
    }
}

impl DetectionSettings {
    /// As the environment of the daemon says: `FERROBAND_DETECT_DUPLICATES` and `FERROBAND_DETECT_GATEWAYS`, each `off`,
    /// `warn` or `enforce`.
    pub fn from_env(variable: impl Fn(&str) -> Option<String>) -> Self {
        Self {
            duplicates: DetectionMode::parse(variable("FERROBAND_DETECT_DUPLICATES")),
            gateways: DetectionMode::parse(variable("FERROBAND_DETECT_GATEWAYS")),
        }
    }

    /// Whether anything is asked in this mode.
    pub fn has_mode(self, mode: DetectionMode) -> bool {
        self.duplicates == mode || self.gateways == mode
    }

    /// What is asked in `mode` about the addresses of a plan.
    pub fn questions_for(
        self,
        mode: DetectionMode,
        plan: &Plan,
        assigned: &[AssignedAddresses],
    ) -> Vec<(AssignedIpIndex, ProbeRequest)> {
        let mut questions = Vec::new();
        for (position, assigned) in assigned.iter().enumerate() {
            let Some(attachment) = plan.attachments.get(assigned.attachment) else { continue };
            for (ip, assigned) in assigned.ips.iter().enumerate() {
                let place = AssignedIpIndex { position, ip };
                let ask = |about| ProbeRequest {
                    interface: attachment.ifname.clone(),
                    address: assigned.address.addr(),
                    kind: about,
                };
                if self.duplicates == mode {
                    questions.push((place, ask(ProbeKind::Duplicate)));
                }
                if let Some(gateway) = assigned.gateway.filter(|_| self.gateways == mode) {
                    questions.push((place, ask(ProbeKind::Gateway(gateway))));
                }
            }
        }
        questions
    }
}

/// Which of the assigned addresses a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AssignedIpIndex {
    /// Position among the assigned.
    pub position: usize,
    /// Position among its addresses.
    pub ip: usize,
}

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct DetectionFinding {
    /// Which address.
    pub index: AssignedIpIndex,
    /// Whether somebody else has it; else its gateway is silent.
    pub duplicate: bool,
    /// As it is told.
    pub fault: Fault,
}

/// Ask, all at once, and give back what is wrong.
pub fn detect(
    netns: &Netns,
    questions: &[(AssignedIpIndex, ProbeRequest)],
) -> Result<Vec<DetectionFinding>, Error> {
    let asked: Vec<_> = questions.iter().map(|(_, question)| question.clone()).collect();
    let verdicts = probe(netns, &asked, ProbeTimeouts::default())?;
    let mut found = Vec::new();
    for ((place, question), verdict) in questions.iter().zip(verdicts) {
        let (duplicate, fault) = match (verdict, question.kind) {
            (ProbeOutcome::Conflict(by), _) => (true, conflict_fault(question, &by)),
            (ProbeOutcome::GatewaySilent, ProbeKind::Gateway(gateway)) => {
                (false, gateway_fault(question, gateway))
            }
            (ProbeOutcome::Passed, ProbeKind::Duplicate) => {
                // Neighbours that remember a former owner learn who has it now. Nothing depends on it.
                let _ = announce(netns, &question.interface, question.address);
                continue;
            }
            _ => continue,
        };
        found.push(DetectionFinding { index: *place, duplicate, fault });
    }
    Ok(found)
}

fn conflict_fault(question: &ProbeRequest, by: &[u8]) -> Fault {
    let by: Vec<_> = by.iter().map(|byte| format!("{byte:02x}")).collect();
    Fault::new(
        FaultCode::AddressConflict,
        format!("interface {}", question.interface),
        format!("ip conflict: {} is also used by {}", question.address, by.join(":")),
        "find that device, or exclude the address from the pool",
    )
}

fn gateway_fault(question: &ProbeRequest, gateway: IpAddr) -> Fault {
    Fault::new(
        FaultCode::GatewayUnreachable,
        format!("interface {}", question.interface),
        format!("gateway {gateway} is unreachable from {}: it answered none of 3 probes", question.address),
        "check the gateway and the partition or VLAN of the network, or take the gateway out of the pool",
    )
}
