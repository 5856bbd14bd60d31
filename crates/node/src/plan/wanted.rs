//! The addresses that a plan needs.

use super::Given;
use ferroband_address::{Request, whereabouts::Whereabouts};
use ferroband_attach::{
    Fields,
    message::Call,
    plan::{Assigned, AssignedIp, AssignedRoute, Attachment},
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
    pub ipam: Whereabouts,
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
        let Some(step) = attachment.steps.iter().find(|step| step.by.is_addressed()) else { return Ok(None) };
        let what = format!("network {}", attachment.network);
        let ipam = Whereabouts::of_plugin(&step.config).map_err(|e| e.fault(&what))?;
        let requests = ipam.requests(given.pod, given.facts.stateful, &attachment.ifname, given.container);
        Ok(Some(Self { attachment: position, network: attachment.network.clone(), ipam, requests }))
    }

    /// The addresses that a plugin's `ipam` object asks for, when that is all that is to be done.
    pub fn of_call(call: &Call, pod: &PodRef, sticky: bool) -> Result<Self, Fault> {
        let empty = Map::new();
        let config = call.config.as_object().unwrap_or(&empty);
        let network = Fields(config).text("name").ok().flatten().unwrap_or_default().to_owned();
        let ipam = Whereabouts::of_plugin(config).map_err(|e| e.fault(&format!("network {network}")))?;
        let requests = ipam.requests(pod, sticky, &call.ifname, &call.container);
        Ok(Self { attachment: 0, network, ipam, requests })
    }

    /// What the CNI side is told, given the assigned `places` in the order of the requests.
    pub fn assigned(&self, places: Vec<(IpNet, Option<IpAddr>)>) -> Assigned {
        let fixed = self.ipam.fixed.iter().map(|fixed| (fixed.address, fixed.gateway));
        let ips = places.into_iter().chain(fixed).map(|(address, gateway)| AssignedIp { address, gateway });
        let routes = self.ipam.routes.iter().map(|route| AssignedRoute { dst: route.dst, gw: route.gw });
        Assigned {
            attachment: self.attachment,
            ips: ips.collect(),
            routes: routes.collect(),
            dns: self.ipam.dns.clone(),
        }
    }
}
