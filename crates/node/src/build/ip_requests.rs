//! Determines the addresses that the daemon must assign, from the IPAM configuration of a plugin (Whereabouts or
//! Spiderpool).

use crate::{
    caches::{PoolSelectionInput, SpiderpoolInterface},
    resolve::{ResolvedInterface, ResolvedPod},
};
use ferroband_address::{
    AddressRequest, Error, IpamWarning, RequestedAddress, restrict_to_requested,
    spiderpool::{PoolSelection, SpiderpoolConfig},
    whereabouts::{WhereaboutsConfig, merge_flat_file},
};
use ferroband_attach::plan::{AssignedAddresses, AssignedIp, AssignedRoute, Attachment};
use ferroband_config::{ipam_section, network_name, plugin_name};
use ferroband_model::Fault;
use ipnet::IpNet;
use serde_json::{Map, Value};
use std::net::IpAddr;

#[derive(Clone, Debug)]
pub struct AttachmentIpRequests {
    /// Index of the attachment in the plan.
    pub attachment: usize,
    pub network: String,
    pub ipam: IpamSource,
    /// One address request for each address that the attachment needs.
    pub requests: Vec<AddressRequest>,
}

impl AttachmentIpRequests {
    /// Returns the address requests for the attachment at `position`, or `None` if none of its plugins gets
    /// addresses from the daemon.
    pub(super) fn for_attachment(
        pod: &ResolvedPod,
        position: usize,
        attachment: &Attachment,
    ) -> Option<Result<Self, Fault>> {
        let step = attachment.steps.iter().find(|step| step.kind.uses_daemon_ipam())?;
        let network = attachment.network.clone();
        let interface =
            SpiderpoolInterface { name: attachment.ifname.clone(), position, network: Some(network.clone()) };
        let ips = attachment.args.get("IP").into_iter().flat_map(|ips| ips.split(','));
        Some(Self::new(pod, position, network, &interface, &step.config, ips))
    }

    /// Returns the address requests of a plugin that is called outside a plan, for example as the IPAM plugin
    /// of a foreign plugin.
    pub fn for_interface(resolved: &ResolvedInterface) -> Result<Self, Fault> {
        let ResolvedInterface { pod, interface, config, ips } = resolved;
        let network = network_name(config).to_owned();
        Self::new(pod, 0, network, interface, config, ips.iter().map(String::as_str))
    }

    fn new<'a>(
        pod: &ResolvedPod,
        attachment: usize,
        network: String,
        interface: &SpiderpoolInterface,
        config: &Map<String, Value>,
        ips: impl Iterator<Item = &'a str>,
    ) -> Result<Self, Fault> {
        let ipam = IpamSource::from_plugin_config(config, pod, interface);
        let read = || -> Result<_, Error> {
            let requested = RequestedAddress::read_all(ips, config)?;
            let ipam = ipam?.with_requested(&requested)?;
            let requests = ipam.requests(pod, &interface.name, &requested)?;
            Ok((ipam, requests))
        };
        let (ipam, requests) = read().map_err(|e| e.fault(&format!("network {network}")))?;
        Ok(Self { attachment, network, ipam, requests })
    }

    /// Builds the reply to the CNI plugin. `addresses` are the assigned addresses and their gateways, in the
    /// order of the requests.
    pub fn build_assigned(&self, addresses: Vec<(IpNet, Option<IpAddr>)>) -> AssignedAddresses {
        self.ipam.build_assigned(self.attachment, addresses)
    }
}

/// The IPAM configuration that determines where the addresses of an interface come from.
#[derive(Clone, Debug)]
pub enum IpamSource {
    /// The plugin's configuration contains the address ranges itself.
    Whereabouts(WhereaboutsConfig),
    /// The addresses come from SpiderIPPool objects.
    Spiderpool(PoolSelection),
}

impl IpamSource {
    /// Reads the `ipam` configuration of a plugin for an interface.
    fn from_plugin_config(
        config: &Map<String, Value>,
        pod: &ResolvedPod,
        interface: &SpiderpoolInterface,
    ) -> Result<Self, Error> {
        if !SpiderpoolConfig::applies_to(config) {
            let ipam = ipam_section(config).ok_or(Error::NoIpam)?;
            let read = WhereaboutsConfig::parse(&merge_flat_file(ipam, &pod.flat_file))?;
            return Ok(Self::Whereabouts(read));
        }
        let none = PoolSelectionInput::default();
        let pools = pod.pools.as_ref().unwrap_or(&none);
        let surroundings = pools.for_pod(&pod.facts.annotations, &pod.facts.labels);
        match PoolSelection::select(
            &surroundings,
            &interface.as_nic(),
            &SpiderpoolConfig::from_plugin(config)?,
        )? {
            Some(choice) => Ok(Self::Spiderpool(choice)),
            // A virtual function is useful without an address, so pools are optional for ib-sriov.
            None if plugin_name(config) == "ib-sriov" => Ok(Self::Spiderpool(PoolSelection::default())),
            None => Err(Error::NoPool { interface: interface.name.clone() }),
        }
    }

    /// Adds the addresses that the pod requests to the static addresses, if a Whereabouts network has no pool.
    /// In all other networks, [`Self::requests`] takes the addresses from the pools.
    fn with_requested(self, requested: &[RequestedAddress]) -> Result<Self, Error> {
        match self {
            Self::Whereabouts(ipam) => ipam.with_requested(requested).map(Self::Whereabouts),
            other => Ok(other),
        }
    }

    /// Returns one address request for each address that the interface needs. Returns an error if an address
    /// that the pod requests is in none of the pools.
    fn requests(
        &self,
        pod: &ResolvedPod,
        interface: &str,
        requested: &[RequestedAddress],
    ) -> Result<Vec<AddressRequest>, Error> {
        let ResolvedPod { pod, facts, container, .. } = pod;
        let mut requests = match self {
            Self::Whereabouts(ipam) => ipam.requests(pod, facts.stateful, interface, container),
            Self::Spiderpool(choice) => choice.requests(pod, facts.stateful, interface, container),
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
    fn build_assigned(
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
