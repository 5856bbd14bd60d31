//! Opens the node's hardware, real or simulated.

use crate::{Error, settings::NodeSettings};
use ferroband_kernel::Hardware;
use ferroband_model::{Fault, FaultCode};
use ferroband_sim::{Profile, Simulation, SimulationOptions};
use std::sync::Arc;
use tracing::warn;

/// Opens the node's hardware. The hardware is simulated if the settings request a simulation or if a
/// simulation is already running on the host.
pub fn open_hardware(settings: &NodeSettings) -> Result<Arc<dyn Hardware>, Error> {
    if let Some(simulate) = &settings.simulation {
        let profile = find_profile(&simulate.profile)?;
        let options = SimulationOptions { seed: settings.node.clone(), uplink: simulate.uplink.clone() };
        Simulation::up(&settings.root, profile, options)?;
    }
    let host: Arc<dyn Hardware> = ferroband_sim::hardware(&settings.root)?.into();
    if host.is_simulated() {
        warn!("the InfiniBand hardware of this node is SIMULATED");
    }
    Ok(host)
}

/// Returns a built-in simulation profile. The fault for an unknown name lists the available profiles.
pub fn find_profile(name: &str) -> Result<Profile, Fault> {
    Profile::builtin(name).ok_or_else(|| {
        let names: Vec<_> = Profile::builtins().into_iter().map(|profile| profile.name).collect();
        Fault::new(
            FaultCode::InvalidConfig,
            format!("simulation profile {name}"),
            "no built-in simulation profile has this name",
            format!("choose one of: {}", names.join(", ")),
        )
    })
}
