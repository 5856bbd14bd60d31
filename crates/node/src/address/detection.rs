//! Duplicate address detection and gateway checks by ARP and NDP probes.

use ferroband_attach::plan::{AssignedAddresses, Plan};
use ferroband_kernel::{
    Error, Netns,
    probe::{ProbeKind, ProbeOutcome, ProbeRequest, ProbeTimeouts, announce, probe},
};
use ferroband_model::{Fault, FaultCode};
use std::net::IpAddr;

/// Value of the pod UID in the allocation that quarantines an address.
pub const QUARANTINE_UID: &str = "quarantine";

/// When probes are sent, and what happens if they find a problem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DetectionMode {
    /// Send no probes.
    Off,
    /// Probe after the pod has its network, and report problems in an event.
    #[default]
    Warn,
    /// Probe before the pod starts. An address in use elsewhere is quarantined and the next one is tried. The pod
    /// does not start if its gateway does not answer.
    Enforce,
}

/// Modes of duplicate address detection and of the gateway check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DetectionSettings {
    /// Mode of duplicate address detection.
    pub duplicates: DetectionMode,
    /// Mode of the check whether the gateway answers.
    pub gateways: DetectionMode,
}

impl DetectionMode {
    /// Parses `off`, `warn` or `enforce`. Any other value means `warn`.
    fn parse(name: Option<String>) -> Self {
        match name.as_deref().map(str::trim) {
            Some("off") => Self::Off,
            Some("enforce") => Self::Enforce,
            _ => Self::Warn,
        }
    }
}

impl DetectionSettings {
    /// Reads `FERROBAND_DETECT_DUPLICATES` and `FERROBAND_DETECT_GATEWAYS` from the environment, each `off`, `warn`
    /// or `enforce`.
    pub fn from_env(variable: impl Fn(&str) -> Option<String>) -> Self {
        Self {
            duplicates: DetectionMode::parse(variable("FERROBAND_DETECT_DUPLICATES")),
            gateways: DetectionMode::parse(variable("FERROBAND_DETECT_GATEWAYS")),
        }
    }

    /// Whether duplicate address detection or the gateway check is in `mode`.
    pub fn has_mode(self, mode: DetectionMode) -> bool {
        self.duplicates == mode || self.gateways == mode
    }

    /// Returns the probes for the assigned addresses. Duplicate address detection and the gateway check are
    /// each included only if they are in `mode`.
    pub fn probes_for(
        self,
        mode: DetectionMode,
        plan: &Plan,
        assigned: &[AssignedAddresses],
    ) -> Vec<(AssignedIpIndex, ProbeRequest)> {
        let mut probes = Vec::new();
        for (position, assigned) in assigned.iter().enumerate() {
            let Some(attachment) = plan.attachments.get(assigned.attachment) else { continue };
            for (ip, assigned) in assigned.ips.iter().enumerate() {
                let index = AssignedIpIndex { position, ip };
                let request = |kind| ProbeRequest {
                    interface: attachment.ifname.clone(),
                    address: assigned.address.addr(),
                    kind,
                };
                if self.duplicates == mode {
                    probes.push((index, request(ProbeKind::Duplicate)));
                }
                if let Some(gateway) = assigned.gateway.filter(|_| self.gateways == mode) {
                    probes.push((index, request(ProbeKind::Gateway(gateway))));
                }
            }
        }
        probes
    }
}

/// Identifies one address in a list of `AssignedAddresses`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AssignedIpIndex {
    /// Index in the list of `AssignedAddresses`.
    pub position: usize,
    /// Index of the address in the `ips` of that element.
    pub ip: usize,
}

/// A problem found by a probe.
#[derive(Clone, Debug, PartialEq)]
pub struct DetectionFinding {
    pub index: AssignedIpIndex,
    /// `true` if another host has the address, `false` if the gateway does not answer.
    pub duplicate: bool,
    pub fault: Fault,
}

/// Sends all probes at once and returns the problems found.
pub fn detect(
    netns: &Netns,
    probes: &[(AssignedIpIndex, ProbeRequest)],
) -> Result<Vec<DetectionFinding>, Error> {
    let requests: Vec<_> = probes.iter().map(|(_, request)| request.clone()).collect();
    let outcomes = probe(netns, &requests, ProbeTimeouts::default())?;
    let mut findings = Vec::new();
    for ((index, request), outcome) in probes.iter().zip(outcomes) {
        let (duplicate, fault) = match (outcome, request.kind) {
            (ProbeOutcome::Conflict(by), _) => (true, conflict_fault(request, &by)),
            (ProbeOutcome::GatewaySilent, ProbeKind::Gateway(gateway)) => {
                (false, gateway_fault(request, gateway))
            }
            (ProbeOutcome::Passed, ProbeKind::Duplicate) => {
                // Announce the address, because neighbour caches may still map it to the link-layer address
                // of a former owner. Failures are ignored.
                let _ = announce(netns, &request.interface, request.address);
                continue;
            }
            _ => continue,
        };
        findings.push(DetectionFinding { index: *index, duplicate, fault });
    }
    Ok(findings)
}

fn conflict_fault(request: &ProbeRequest, by: &[u8]) -> Fault {
    let by: Vec<_> = by.iter().map(|byte| format!("{byte:02x}")).collect();
    Fault::new(
        FaultCode::AddressConflict,
        format!("interface {}", request.interface),
        format!(
            "ip conflict: {} is also used by the host with hardware address {}",
            request.address,
            by.join(":")
        ),
        "find the host with this address, or exclude the address from the pool",
    )
}

fn gateway_fault(request: &ProbeRequest, gateway: IpAddr) -> Fault {
    Fault::new(
        FaultCode::GatewayUnreachable,
        format!("interface {}", request.interface),
        format!("gateway {gateway} is unreachable from {}: it answered none of 3 probes", request.address),
        "check the gateway and the partition or VLAN of the network, or remove the gateway from the pool",
    )
}
