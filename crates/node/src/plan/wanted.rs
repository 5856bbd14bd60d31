//! Determines the addresses that the daemon must assign for a plan.

use super::{IpamSource, PlanInput, WhereaboutsLegacy};
use crate::caches::{PodFacts, PoolSelectionInput, SpiderpoolInterface};
use ferroband_address::AddressRequest;
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
            input.facts,
            &interface,
            input.spiderpool_context,
            input.legacy,
        );
        let argument = |name: &str| attachment.args.get(name).map(String::as_str).unwrap_or_default();
        let ipam = ipam.and_then(|ipam| ipam.with_arguments(argument("IP"), argument("GATEWAY")));
        let ipam = ipam.map_err(|e| e.fault(&what))?;
        let requests = ipam.requests(input.pod, input.facts.stateful, &attachment.ifname, input.container);
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
        let ipam = IpamSource::from_plugin_config(config, facts, interface, spiderpool_context, legacy);
        let ipam = ipam.map_err(|e| e.fault(&format!("network {network}")))?;
        let requests = ipam.requests(pod, facts.stateful, &call.ifname, &call.container);
        Ok(Self { attachment: 0, network, ipam, requests })
    }

    /// Builds the reply to the CNI plugin. `addresses` are the assigned addresses and their gateways, in the
    /// order of the requests.
    pub fn build_assigned(&self, addresses: Vec<(IpNet, Option<IpAddr>)>) -> AssignedAddresses {
        self.ipam.build_assigned(self.attachment, addresses)
    }
}
