//! Who carries out a plugin.

use ferroband_attach::plan::{Doer, Step, VfStep};
use ferroband_model::{Fault, FaultCode};
use serde_json::{Map, Value};

/// The step of one plugin of `network`.
fn step(network: &str, config: Map<String, Value>) -> Result<Step, Fault> {
    let by = Doer::of_config(&config).map_err(|e| within(network, e.fault()))?;
    Ok(Step { config, by })
}

/// The steps of a network's plugins. The RDMA device of a function goes with the function: moved after it, as a chain
/// with `rdma` says, it would take the interface away that the function brought.
pub fn steps(network: &str, plugins: impl Iterator<Item = Map<String, Value>>) -> Result<Vec<Step>, Fault> {
    let mut steps: Vec<Step> = Vec::new();
    for plugin in plugins {
        let step = step(network, plugin)?;
        match (&step.by, function(&mut steps)) {
            (Doer::Rdma { device }, Some(vf)) if of_function(device.as_deref(), vf) => {
                vf.isolation = Some(true);
            }
            _ => steps.push(step),
        }
    }
    Ok(steps)
}

fn function(steps: &mut [Step]) -> Option<&mut VfStep> {
    steps.iter_mut().find_map(|step| match &mut step.by {
        Doer::IbSriov { vf, .. } => Some(vf),
        _ => None,
    })
}

fn of_function(device: Option<&str>, vf: &VfStep) -> bool {
    device.is_none_or(|device| device.parse() == Ok(vf.device))
}

/// The fault, with the network that it is about.
pub fn within(network: &str, fault: Fault) -> Fault {
    let what = match fault.code {
        FaultCode::Undecodable | FaultCode::InvalidConfig | FaultCode::IncompatibleVersion => {
            format!("network {network}")
        }
        _ => format!("network {network}: {}", fault.what),
    };
    Fault { what, ..fault }
}
