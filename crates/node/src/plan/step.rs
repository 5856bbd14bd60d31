//! Who carries out a plugin.

use ferroband_attach::{
    Error, Fields,
    plan::{Doer, IpoibStep, Step},
};
use ferroband_model::{Fault, FaultCode};
use serde_json::{Map, Value};

/// The step of one plugin of `network`.
pub fn step(network: &str, config: Map<String, Value>) -> Result<Step, Fault> {
    let by = doer(&config).map_err(|e| within(network, e.fault()))?;
    Ok(Step { config, by })
}

fn doer(config: &Map<String, Value>) -> Result<Doer, Error> {
    let fields = Fields(config);
    match fields.text("type")?.unwrap_or_default() {
        "ipoib" => ipoib(fields),
        _ => Ok(Doer::Foreign),
    }
}

fn ipoib(fields: Fields<'_>) -> Result<Doer, Error> {
    let parent = fields.text("master")?.filter(|name| !name.is_empty()).ok_or(Error::NoMaster)?.to_owned();
    let mtu = fields.whole("mtu")?.and_then(|mtu| u32::try_from(mtu).ok()).filter(|mtu| *mtu > 0);
    let addressed = match fields.ipam_type()? {
        Some("dhcp") => return Err(Error::Dhcp),
        kind => kind == Some("whereabouts"),
    };
    Ok(Doer::Ipoib { child: IpoibStep { parent, mtu }, addressed })
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
