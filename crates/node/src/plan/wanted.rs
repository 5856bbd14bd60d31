//! The addresses that a plan needs.

use super::{Given, Ipam, Legacy};
use crate::caches::{Around, Interface, PodFacts};
use ferroband_address::Request;
use ferroband_attach::{
    Fields,
    message::Call,
    plan::{Assigned, Attachment},
};
use ferroband_model::{Fault, PodRef};
use ipnet::IpNet;
use serde_json::Map;
use std::net::IpAddr;

/// Addresses for one attachment.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Its position in the plan.
    pub attachment: usize,
    /// What the network is called.
    pub network: String,
    /// What its `ipam` object asks for.
    pub ipam: Ipam,
    /// One for each address.
    pub requests: Vec<Request>,
}

impl Wanted {
    /// The addresses that the daemon has to find for the attachment at `position`.
    pub(super) fn of_attachment(
        given: &Given<'_>,
        position: usize,
        attachment: &Attachment,
    ) -> Result<Option<Self>, Fault> {
        let step = attachment.steps.iter().find(|step| step.by.is_addressed());
        let Some(step) = step else { return Ok(None) };
        let what = format!("network {}", attachment.network);
        let interface = Interface {
            name: attachment.ifname.clone(),
            position,
            network: Some(attachment.network.clone()),
        };
        let ipam = Ipam::of_plugin(&step.config, given.facts, &interface, given.around, given.legacy);
        let argument = |name: &str| attachment.args.get(name).map(String::as_str).unwrap_or_default();
        let ipam = ipam.and_then(|ipam| ipam.with_arguments(argument("IP"), argument("GATEWAY")));
        let ipam = ipam.map_err(|e| e.fault(&what))?;
        let requests = ipam.requests(given.pod, given.facts.stateful, &attachment.ifname, given.container);
        Ok(Some(Self { attachment: position, network: attachment.network.clone(), ipam, requests }))
    }

    /// The addresses that a plugin's `ipam` object asks for, when that is all that is to be done.
    pub fn of_call(
        call: &Call,
        pod: &PodRef,
        facts: &PodFacts,
        interface: &Interface,
        around: Option<&Around>,
        legacy: &Legacy,
    ) -> Result<Self, Fault> {
        let empty = Map::new();
        let config = call.config.as_object().unwrap_or(&empty);
        let network = Fields(config).text("name").ok().flatten().unwrap_or_default().to_owned();
        let ipam = Ipam::of_plugin(config, facts, interface, around, legacy);
        let ipam = ipam.map_err(|e| e.fault(&format!("network {network}")))?;
        let requests = ipam.requests(pod, facts.stateful, &call.ifname, &call.container);
        Ok(Self { attachment: 0, network, ipam, requests })
    }

    /// What the CNI side is told, given the assigned `places` in the order of the requests.
    pub fn assigned(&self, places: Vec<(IpNet, Option<IpAddr>)>) -> Assigned {
        self.ipam.assigned(self.attachment, places)
    }
}
