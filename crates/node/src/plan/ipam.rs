//! The IPAM configuration of a plugin: Whereabouts or Spiderpool.

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

/// Source of an interface's addresses.
#[derive(Clone, Debug)]
pub enum IpamSource {
    /// Ranges in the configuration itself.
    Whereabouts(WhereaboutsConfig),
    /// SpiderIPPool objects.
    Spiderpool(PoolSelection),
}

impl IpamSource {
    /// Reads the configuration of a plugin for an interface. Only Spiderpool needs the context.
    pub fn from_plugin_config(
        config: &Map<String, Value>,
        facts: &PodFacts,
        interface: &SpiderpoolInterface,
        spiderpool_context: Option<&PoolSelectionInput>,
        legacy: &WhereaboutsLegacy,
    ) -> Result<Self, Error> {
        if !SpiderpoolConfig::applies_to(config) {
            let Some(Value::Object(ipam)) = config.get("ipam") else { return Err(Error::NoIpam) };
            let read = WhereaboutsConfig::parse(&merge_flat_file(ipam, &legacy.flat_file))?;
            return Ok(Self::Whereabouts(read.withholding_taken(&legacy.taken_addresses)));
        }
        let none = PoolSelectionInput::default();
        let surroundings = spiderpool_context.unwrap_or(&none).for_pod(&facts.annotations, &facts.labels);
        match PoolSelection::select(
            &surroundings,
            &interface.as_nic(),
            &SpiderpoolConfig::from_plugin(config)?,
        )? {
            Some(choice) => Ok(Self::Spiderpool(choice)),
            // A virtual function is useful without an address, so pools are optional for ib-sriov.
            None if config.get("type").and_then(Value::as_str) == Some("ib-sriov") => {
                Ok(Self::Spiderpool(PoolSelection::default()))
            }
            None => Err(Error::NoPool { interface: interface.name.clone() }),
        }
    }

    /// Applies the addresses and gateways of `CNI_ARGS`.
    pub fn with_arguments(self, ips: &str, gateways: &str) -> Result<Self, Error> {
        match self {
            Self::Whereabouts(ipam) => ipam.with_cni_args(ips, gateways).map(Self::Whereabouts),
            other => Ok(other),
        }
    }

    /// Whether the addresses of a plugin come from SpiderIPPool objects.
    pub fn uses_pool_objects(config: &Map<String, Value>) -> bool {
        SpiderpoolConfig::applies_to(config)
    }

    /// Returns one request per address.
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

    /// Settings without effect.
    pub fn warnings(&self) -> &[IpamWarning] {
        match self {
            Self::Whereabouts(ipam) => &ipam.warnings,
            Self::Spiderpool(choice) => &choice.warnings,
        }
    }

    /// Builds the reply for the CNI plugin about `attachment` from the assigned `addresses`, in the order of the
    /// requests.
    pub fn build_assigned(
        &self,
        attachment: usize,
        mut addresses: Vec<(IpNet, Option<IpAddr>)>,
    ) -> AssignedAddresses {
        let (routes, dns) = match self {
            Self::Whereabouts(ipam) => {
                addresses.extend(ipam.static_addresses.iter().map(|fixed| (fixed.address, fixed.gateway)));
                (ipam.routes.clone(), ipam.dns.clone())
            }
            Self::Spiderpool(choice) => (choice.routes(&addresses), None),
        };
        let ips = addresses.into_iter().map(|(address, gateway)| AssignedIp { address, gateway });
        let routes = routes.into_iter().map(|route| AssignedRoute { dst: route.dst, gw: route.gw });
        AssignedAddresses { attachment, ips: ips.collect(), routes: routes.collect(), dns }
    }
}
