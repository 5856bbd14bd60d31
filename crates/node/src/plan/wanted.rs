//! The addresses that a plan needs.

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

/// Addresses for one attachment.
#[derive(Clone, Debug)]
pub struct AttachmentIpRequests {
    /// Its position in the plan.
    pub attachment: usize,
    /// What the network is called.
    pub network: String,
    /// What its `ipam` object asks for.
    pub ipam: IpamSource,
    /// One for each address.
    pub requests: Vec<AddressRequest>,
}

impl AttachmentIpRequests {
    /// The addresses that the daemon has to find for the attachment at `position`.
    pub(super) fn for_attachment(
        given: &PlanInput<'_>,
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
            given.facts,
            &interface,
            given.spiderpool_context,
            given.legacy,
        );
        let argument = |name: &str| attachment.args.get(name).map(String::as_str).unwrap_or_default();
        let ipam = ipam.and_then(|ipam| ipam.with_arguments(argument("IP"), argument("GATEWAY")));
        let ipam = ipam.map_err(|e| e.fault(&what))?;
        let requests = ipam.requests(given.pod, given.facts.stateful, &attachment.ifname, given.container);
        Ok(Some(Self { attachment: position, network: attachment.network.clone(), ipam, requests }))
    }

    /// The addresses that a plugin's `ipam` object asks for, when that is all that is to be done.
    pub fn for_call(
        call: &CniCall,
        pod: &PodRef,
        facts: &PodFacts,
        interface: &SpiderpoolInterface,
        around: Option<&PoolSelectionInput>,
        legacy: &WhereaboutsLegacy,
    ) -> Result<Self, Fault> {
        let empty = Map::new();
        let config = call.config.as_object().unwrap_or(&empty);
        let network = ConfigFields(config).text("name").ok().flatten().unwrap_or_default().to_owned();
        let ipam = IpamSource::from_plugin_config(config, facts, interface, around, legacy);
        let ipam = ipam.map_err(|e| e.fault(&format!("network {network}")))?;
        let requests = ipam.requests(pod, facts.stateful, &call.ifname, &call.container);
        Ok(Self { attachment: 0, network, ipam, requests })
    }

    /// What the CNI side is told, given the assigned `places` in the order of the requests.
    pub fn build_assigned(&self, places: Vec<(IpNet, Option<IpAddr>)>) -> AssignedAddresses {
        self.ipam.build_assigned(self.attachment, places)
    }
}
