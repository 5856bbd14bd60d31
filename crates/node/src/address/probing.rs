//! Asking the wire about addresses: whether somebody else has one, whether a gateway answers.

use ferroband_attach::plan::{Assigned, Plan};
use ferroband_kernel::{
    Error, Netns,
    probe::{About, Patience, Question, Verdict, announce, probe},
};
use ferroband_model::{Fault, FaultCode};
use std::net::IpAddr;

/// What is done about what the wire says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
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
pub struct Probing {
    /// Whether addresses are somebody else's.
    pub duplicates: Mode,
    /// Whether gateways answer.
    pub gateways: Mode,
}

impl Mode {
    /// By its name; the default for any other.
    fn of(name: Option<String>) -> Self {
        match name.as_deref().map(str::trim) {
            Some("off") => Self::Off,
            Some("enforce") => Self::Enforce,
            _ => Self::Warn,
        }
    }
}

impl Probing {
    /// As the environment of the daemon says: `FERROBAND_DETECT_DUPLICATES` and `FERROBAND_DETECT_GATEWAYS`, each `off`,
    /// `warn` or `enforce`.
    pub fn of_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        Self {
            duplicates: Mode::of(variable("FERROBAND_DETECT_DUPLICATES")),
            gateways: Mode::of(variable("FERROBAND_DETECT_GATEWAYS")),
        }
    }

    /// Whether anything is asked in this mode.
    pub fn any(self, mode: Mode) -> bool {
        self.duplicates == mode || self.gateways == mode
    }

    /// What is asked in `mode` about the addresses of a plan.
    pub fn questions(self, mode: Mode, plan: &Plan, assigned: &[Assigned]) -> Vec<(Place, Question)> {
        let mut questions = Vec::new();
        for (position, assigned) in assigned.iter().enumerate() {
            let Some(attachment) = plan.attachments.get(assigned.attachment) else { continue };
            for (ip, assigned) in assigned.ips.iter().enumerate() {
                let place = Place { position, ip };
                let ask = |about| Question {
                    interface: attachment.ifname.clone(),
                    address: assigned.address.addr(),
                    about,
                };
                if self.duplicates == mode {
                    questions.push((place, ask(About::Duplicate)));
                }
                if let Some(gateway) = assigned.gateway.filter(|_| self.gateways == mode) {
                    questions.push((place, ask(About::Gateway(gateway))));
                }
            }
        }
        questions
    }
}

/// Which of the assigned addresses a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Position among the assigned.
    pub position: usize,
    /// Position among its addresses.
    pub ip: usize,
}

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Which address.
    pub place: Place,
    /// Whether somebody else has it; else its gateway is silent.
    pub duplicate: bool,
    /// As it is told.
    pub fault: Fault,
}

/// Ask, all at once, and give back what is wrong.
pub fn findings(netns: &Netns, questions: &[(Place, Question)]) -> Result<Vec<Finding>, Error> {
    let asked: Vec<_> = questions.iter().map(|(_, question)| question.clone()).collect();
    let verdicts = probe(netns, &asked, Patience::default())?;
    let mut found = Vec::new();
    for ((place, question), verdict) in questions.iter().zip(verdicts) {
        let (duplicate, fault) = match (verdict, question.about) {
            (Verdict::Conflict(by), _) => (true, conflict(question, &by)),
            (Verdict::Silent, About::Gateway(gateway)) => (false, silent(question, gateway)),
            (Verdict::Good, About::Duplicate) => {
                // Neighbours that remember a former owner learn who has it now. Nothing depends on it.
                let _ = announce(netns, &question.interface, question.address);
                continue;
            }
            _ => continue,
        };
        found.push(Finding { place: *place, duplicate, fault });
    }
    Ok(found)
}

fn conflict(question: &Question, by: &[u8]) -> Fault {
    let by: Vec<_> = by.iter().map(|byte| format!("{byte:02x}")).collect();
    Fault::new(
        FaultCode::AddressConflict,
        format!("interface {}", question.interface),
        format!("ip conflict: {} is also used by {}", question.address, by.join(":")),
        "find that device, or exclude the address from the pool",
    )
}

fn silent(question: &Question, gateway: IpAddr) -> Fault {
    Fault::new(
        FaultCode::GatewayUnreachable,
        format!("interface {}", question.interface),
        format!("gateway {gateway} is unreachable from {}: it answered none of 3 probes", question.address),
        "check the gateway and the partition or VLAN of the network, or take the gateway out of the pool",
    )
}
