//! The IPAM configuration of a plugin: Whereabouts or Spiderpool.

use super::WhereaboutsLegacy;
use crate::caches::{PodFacts, PoolSelectionInput, SpiderpoolInterface};
use ferroband_address::{
    AddressRequest, Error, IpamWarning, RequestedAddress, restrict_to_requested,
    spiderpool::{PoolSelection, SpiderpoolConfig},
    whereabouts::{WhereaboutsConfig, merge_flat_file},
};
use ferroband_attach::plan::{AssignedAddresses, AssignedIp, AssignedRoute};
use ferroband_model::{PodRef, config_object::get_key};
use ipnet::IpNet;
use serde_json::{Map, Value};
use std::net::IpAddr;

/// The IPAM configuration that determines where the addresses of an interface come from.
#[derive(Clone, Debug)]
pub enum IpamSource {
    /// The plugin's configuration contains the address ranges itself.
    Whereabouts(WhereaboutsConfig),
    /// The addresses come from SpiderIPPool objects.
    Spiderpool(PoolSelection),
}

impl IpamSource {
    /// Reads the `ipam` configuration of a plugin for an interface. `spiderpool_context` is required only for
    /// Spiderpool.
    pub fn from_plugin_config(
        config: &Map<String, Value>,
        pod: &PodRef,
        facts: &PodFacts,
        interface: &SpiderpoolInterface,
        spiderpool_context: Option<&PoolSelectionInput>,
        legacy: &WhereaboutsLegacy,
    ) -> Result<Self, Error> {
        if !SpiderpoolConfig::applies_to(config) {
            let Some(Value::Object(ipam)) = get_key(config, "ipam") else { return Err(Error::NoIpam) };
            let read = WhereaboutsConfig::parse(&merge_flat_file(ipam, &legacy.flat_file))?;
            let name = format!("{}/{}", pod.namespace, pod.name);
            return Ok(Self::Whereabouts(read.withholding_recorded(
                &legacy.recorded,
                &name,
                &interface.name,
            )));
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
            None if get_key(config, "type").and_then(Value::as_str) == Some("ib-sriov") => {
                Ok(Self::Spiderpool(PoolSelection::default()))
            }
            None => Err(Error::NoPool { interface: interface.name.clone() }),
        }
    }

    /// Whether the addresses of a plugin come from SpiderIPPool objects.
    pub fn uses_pool_objects(config: &Map<String, Value>) -> bool {
        SpiderpoolConfig::applies_to(config)
    }

    /// Adds the addresses that the pod requests to the static addresses, if a Whereabouts network has no pool.
    /// In all other networks, [`Self::requests`] takes the addresses from the pools.
    pub fn with_requested(self, requested: &[RequestedAddress]) -> Result<Self, Error> {
        match self {
            Self::Whereabouts(ipam) => ipam.with_requested(requested).map(Self::Whereabouts),
            other => Ok(other),
        }
    }

    /// Returns one address request for each address that the interface needs. Returns an error if an address
    /// that the pod requests is in none of the pools.
    pub fn requests(
        &self,
        pod: &PodRef,
        sticky: bool,
        interface: &str,
        container: &str,
        requested: &[RequestedAddress],
    ) -> Result<Vec<AddressRequest>, Error> {
        let mut requests = match self {
            Self::Whereabouts(ipam) => ipam.requests(pod, sticky, interface, container),
            Self::Spiderpool(choice) => choice.requests(pod, sticky, interface, container),
        };
        // Without a pool there is nothing to check.
        if !requests.is_empty() {
            restrict_to_requested(&mut requests, requested)?;
        }
        Ok(requests)
    }

    /// Settings of the configuration that are accepted but have no effect.
    pub fn warnings(&self) -> &[IpamWarning] {
        match self {
            Self::Whereabouts(ipam) => &ipam.warnings,
            Self::Spiderpool(choice) => &choice.warnings,
        }
    }

    /// Builds the reply to the CNI plugin for the attachment with this index. `addresses` are the assigned
    /// addresses and their gateways, in the order of the requests.
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
