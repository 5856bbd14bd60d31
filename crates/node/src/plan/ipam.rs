//! What an `ipam` object asks of us, in either front end's words.

use super::Legacy;
use crate::caches::{Around, Interface, PodFacts};
use ferroband_address::{
    Error, Request, Warning,
    spiderpool::{Choice, Config},
    whereabouts::{Whereabouts, merged},
};
use ferroband_attach::plan::{Assigned, AssignedIp, AssignedRoute};
use ferroband_model::PodRef;
use ipnet::IpNet;
use serde_json::{Map, Value};
use std::net::IpAddr;

/// Where an interface's addresses come from.
#[derive(Clone, Debug)]
pub enum Ipam {
    /// Ranges of the configuration itself.
    Whereabouts(Whereabouts),
    /// Pools that are objects.
    Spiderpool(Choice),
}

impl Ipam {
    /// What the configuration of a plugin asks for the interface; `around` is needed for Spiderpool alone.
    pub fn of_plugin(
        config: &Map<String, Value>,
        facts: &PodFacts,
        interface: &Interface,
        around: Option<&Around>,
        legacy: &Legacy,
    ) -> Result<Self, Error> {
        if !Config::is_meant(config) {
            let Some(Value::Object(ipam)) = config.get("ipam") else { return Err(Error::NoIpam) };
            let read = Whereabouts::parse(&merged(ipam, &legacy.flat))?;
            return Ok(Self::Whereabouts(read.leaving_out(&legacy.taken)));
        }
        let none = Around::default();
        let surroundings = around.unwrap_or(&none).pod(&facts.annotations, &facts.labels);
        match Choice::make(&surroundings, &interface.nic(), &Config::of_plugin(config)?)? {
            Some(choice) => Ok(Self::Spiderpool(choice)),
            // A function of an adapter is of use without an address: where a fabric manager is in charge, pools are
            // optional.
            None if config.get("type").and_then(Value::as_str) == Some("ib-sriov") => {
                Ok(Self::Spiderpool(Choice::default()))
            }
            None => Err(Error::NoPool { interface: interface.name.clone() }),
        }
    }

    /// The same with what the runtime's arguments ask for.
    pub fn with_arguments(self, ips: &str, gateways: &str) -> Result<Self, Error> {
        match self {
            Self::Whereabouts(ipam) => ipam.with_arguments(ips, gateways).map(Self::Whereabouts),
            other => Ok(other),
        }
    }

    /// Whether a plugin's configuration leaves its addresses to pools that are objects.
    pub fn needs_pools(config: &Map<String, Value>) -> bool {
        Config::is_meant(config)
    }

    /// One for each address.
    pub fn requests(&self, pod: &PodRef, sticky: bool, interface: &str, container: &str) -> Vec<Request> {
        match self {
            Self::Whereabouts(ipam) => ipam.requests(pod, sticky, interface, container),
            Self::Spiderpool(choice) => choice.requests(pod, sticky, interface, container),
        }
    }

    /// What has no effect.
    pub fn warnings(&self) -> &[Warning] {
        match self {
            Self::Whereabouts(ipam) => &ipam.warnings,
            Self::Spiderpool(choice) => &choice.warnings,
        }
    }

    /// What the CNI side is told about `attachment`, given the assigned `places` in the order of the requests.
    pub fn assigned(&self, attachment: usize, mut places: Vec<(IpNet, Option<IpAddr>)>) -> Assigned {
        let (routes, dns) = match self {
            Self::Whereabouts(ipam) => {
                places.extend(ipam.fixed.iter().map(|fixed| (fixed.address, fixed.gateway)));
                (ipam.routes.clone(), ipam.dns.clone())
            }
            Self::Spiderpool(choice) => (choice.routes(&places), None),
        };
        let ips = places.into_iter().map(|(address, gateway)| AssignedIp { address, gateway });
        let routes = routes.into_iter().map(|route| AssignedRoute { dst: route.dst, gw: route.gw });
        Assigned { attachment, ips: ips.collect(), routes: routes.collect(), dns }
    }
}
