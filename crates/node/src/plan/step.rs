//! Builds the steps of an attachment, one for each plugin. An `rdma` plugin after `ib-sriov` has no step of
//! its own.

use ferroband_attach::plan::{PlanStep, StepKind, VfStep};
use ferroband_model::{Fault, FaultCode};
use serde_json::{Map, Value};

fn build_step(network: &str, config: Map<String, Value>) -> Result<PlanStep, Fault> {
    let by = StepKind::from_config(&config).map_err(|e| fault_in_network(network, e.fault()))?;
    Ok(PlanStep { config, kind: by })
}

/// Builds the steps of a network's plugins. An `rdma` plugin after `ib-sriov` becomes part of the step of
/// `ib-sriov`: the RDMA device must move together with the function, because moving it afterwards removes the
/// function's network interface.
pub fn build_steps(
    network: &str,
    plugins: impl Iterator<Item = Map<String, Value>>,
) -> Result<Vec<PlanStep>, Fault> {
    let mut steps: Vec<PlanStep> = Vec::new();
    for plugin in plugins {
        let step = build_step(network, plugin)?;
        match (&step.kind, find_vf_step(&mut steps)) {
            (StepKind::Rdma { device }, Some(vf)) if is_device_of(device.as_deref(), vf) => {
                vf.isolation = Some(true);
            }
            _ => steps.push(step),
        }
    }
    Ok(steps)
}

fn find_vf_step(steps: &mut [PlanStep]) -> Option<&mut VfStep> {
    steps.iter_mut().find_map(|step| match &mut step.kind {
        StepKind::IbSriov { vf, .. } => Some(vf),
        _ => None,
    })
}

fn is_device_of(device: Option<&str>, vf: &VfStep) -> bool {
    device.is_none_or(|device| device.parse() == Ok(vf.device))
}

/// Adds the network's name to a fault. For configuration faults, the name replaces `what`.
pub fn fault_in_network(network: &str, fault: Fault) -> Fault {
    let what = match fault.code {
        FaultCode::Undecodable | FaultCode::InvalidConfig | FaultCode::IncompatibleVersion => {
            format!("network {network}")
        }
        _ => format!("network {network}: {}", fault.what),
    };
    Fault { what, ..fault }
}
