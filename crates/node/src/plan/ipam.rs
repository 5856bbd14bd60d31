//! What an `ipam` object asks of us, in either front end's words.

use super::WhereaboutsLegacy;
use crate::caches::{PodFacts, PoolSelectionInput, SpiderpoolInterface};
use ferroband_address::{
    AddressRequest, Error, IpamWarning,
    spiderpool::{PoolSelection, SpiderpoolConfig},
    whereabouts::{WhereaboutsConfig, merge_flat_file},
};
use ferroband_attach::plan::{AssignedAddresses, AssignedIp, AssignedRoute};
use ferroband_model::PodRef;
use ipnet::IpNet;
use serde_json::{Map, Value};
use std::net::IpAddr;

/// Where an interface's addresses come from.
#[derive(Clone, Debug)]
pub enum IpamSource {
    /// Ranges of the configuration itself.
    Whereabouts(WhereaboutsConfig),
    /// Pools that are objects.
    Spiderpool(PoolSelection),
}

impl IpamSource {
    /// What the configuration of a plugin asks for the interface; `around` is needed for Spiderpool alone.
    pub fn from_plugin_config(
        config: &Map<String, Value>,
        facts: &PodFacts,
        interface: &SpiderpoolInterface,
        around: Option<&PoolSelectionInput>,
        legacy: &WhereaboutsLegacy,
    ) -> Result<Self, Error> {
        if !SpiderpoolConfig::applies_to(config) {
            let Some(Value::Object(ipam)) = config.get("ipam") else { return Err(Error::NoIpam) };
            let read = WhereaboutsConfig::parse(&merge_flat_file(ipam, &legacy.flat_file))?;
            return Ok(Self::Whereabouts(read.withholding_taken(&legacy.taken_addresses)));
        }
        let none = PoolSelectionInput::default();
        let surroundings = around.unwrap_or(&none).for_pod(&facts.annotations, &facts.labels);
        match PoolSelection::select(
            &surroundings,
            &interface.as_nic(),
            &SpiderpoolConfig::from_plugin(config)?,
        )? {
            Some(choice) => Ok(Self::Spiderpool(choice)),
            // A function of an adapter is of use without an address: where a fabric manager is in charge, pools are
            // optional.
            None if config.get("type").and_then(Value::as_str) == Some("ib-sriov") => {
                Ok(Self::Spiderpool(PoolSelection::default()))
            }
            None => Err(Error::NoPool { interface: interface.name.clone() }),
        }
    }

    /// The same with what the runtime's arguments ask for.
    pub fn with_arguments(self, ips: &str, gateways: &str) -> Result<Self, Error> {
        match self {
            Self::Whereabouts(ipam) => ipam.with_cni_args(ips, gateways).map(Self::Whereabouts),
            other => Ok(other),
        }
    }

    /// Whether a plugin's configuration leaves its addresses to pools that are objects.
    pub fn uses_pool_objects(config: &Map<String, Value>) -> bool {
        SpiderpoolConfig::applies_to(config)
    }

    /// One for each address.
    pub fn requests(
        &self,
        pod: &PodRef,
        sticky: bool,
        interface: &str,
        container: &str,
    ) -> Vec<AddressRequest> {
        match self {
            Self::Whereabouts(ipam) => ipam.requests(pod, sticky, interface, container),
            Self::Spiderpool(choice) => choice.requests(pod, sticky, interface, container),
        }
    }

    /// What has no effect.
    pub fn warnings(&self) -> &[IpamWarning] {
        match self {
            Self::Whereabouts(ipam) => &ipam.warnings,
            Self::Spiderpool(choice) => &choice.warnings,
        }
    }

    /// What the CNI side is told about `attachment`, given the assigned `places` in the order of the requests.
    pub fn build_assigned(
        &self,
        attachment: usize,
        mut places: Vec<(IpNet, Option<IpAddr>)>,
    ) -> AssignedAddresses {
        let (routes, dns) = match self {
            Self::Whereabouts(ipam) => {
                places.extend(ipam.static_addresses.iter().map(|fixed| (fixed.address, fixed.gateway)));
                (ipam.routes.clone(), ipam.dns.clone())
            }
            Self::Spiderpool(choice) => (choice.routes(&places), None),
        };
        let ips = places.into_iter().map(|(address, gateway)| AssignedIp { address, gateway });
        let routes = routes.into_iter().map(|route| AssignedRoute { dst: route.dst, gw: route.gw });
        AssignedAddresses { attachment, ips: ips.collect(), routes: routes.collect(), dns }
    }
}
