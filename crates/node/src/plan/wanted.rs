//! Determines the addresses that the daemon must assign for a plan.

use super::{IpamSource, PlanInput, WhereaboutsLegacy};
use crate::caches::{PodFacts, PoolSelectionInput, SpiderpoolInterface};
use ferroband_address::{AddressRequest, RequestedAddress};
use ferroband_attach::{
    ConfigFields,
    message::CniCall,
    plan::{AssignedAddresses, Attachment},
};
use ferroband_model::{Fault, PodRef};
use ipnet::IpNet;
use serde_json::Map;
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
        input: &PlanInput<'_>,
        position: usize,
        attachment: &Attachment,
    ) -> Result<Option<Self>, Fault> {
        let step = attachment.steps.iter().find(|step| step.kind.uses_daemon_ipam());
        let Some(step) = step else { return Ok(None) };
        let what = format!("network {}", attachment.network);
        let interface = SpiderpoolInterface {
            name: attachment.ifname.clone(),
            position,
            network: Some(attachment.network.clone()),
        };
        let ipam = IpamSource::from_plugin_config(
            &step.config,
            input.pod,
            input.facts,
            &interface,
            input.spiderpool_context,
            input.legacy,
        );
        let arguments = attachment.args.get("IP").into_iter().flat_map(|ips| ips.split(','));
        let read = || -> Result<_, ferroband_address::Error> {
            let requested = RequestedAddress::read_all(arguments, &step.config)?;
            let ipam = ipam?.with_requested(&requested)?;
            let (sticky, ifname) = (input.facts.stateful, &attachment.ifname);
            let requests = ipam.requests(input.pod, sticky, ifname, input.container, &requested)?;
            Ok((ipam, requests))
        };
        let (ipam, requests) = read().map_err(|e| e.fault(&what))?;
        Ok(Some(Self { attachment: position, network: attachment.network.clone(), ipam, requests }))
    }

    /// Returns the address requests of a plugin that is called outside a plan, for example as the IPAM plugin
    /// of a foreign plugin.
    pub fn for_call(
        call: &CniCall,
        pod: &PodRef,
        facts: &PodFacts,
        interface: &SpiderpoolInterface,
        spiderpool_context: Option<&PoolSelectionInput>,
        legacy: &WhereaboutsLegacy,
    ) -> Result<Self, Fault> {
        let empty = Map::new();
        let config = call.config.as_object().unwrap_or(&empty);
        let network = ConfigFields(config).text("name").ok().flatten().unwrap_or_default().to_owned();
        let ipam = IpamSource::from_plugin_config(config, pod, facts, interface, spiderpool_context, legacy);
        let read = || -> Result<_, ferroband_address::Error> {
            let requested = RequestedAddress::read_all(call.ips.iter().map(String::as_str), config)?;
            let ipam = ipam?.with_requested(&requested)?;
            let requests = ipam.requests(pod, facts.stateful, &call.ifname, &call.container, &requested)?;
            Ok((ipam, requests))
        };
        let (ipam, requests) = read().map_err(|e| e.fault(&format!("network {network}")))?;
        Ok(Self { attachment: 0, network, ipam, requests })
    }

    /// Builds the reply to the CNI plugin. `addresses` are the assigned addresses and their gateways, in the
    /// order of the requests.
    pub fn build_assigned(&self, addresses: Vec<(IpNet, Option<IpAddr>)>) -> AssignedAddresses {
        self.ipam.build_assigned(self.attachment, addresses)
    }
}
