//! The plan of one sandbox.

use super::{
    DefaultNetwork, capability,
    step::{step, within},
};
use crate::caches::PodFacts;
use ferroband_address::{Request, whereabouts::Whereabouts};
use ferroband_api::{
    annotation::{DEFAULT_NETWORK, NETWORKS, Selection},
    cncf::{NetworkAttachmentDefinition, NetworkConfig},
};
use ferroband_attach::{
    Fields, Version,
    message::Call,
    plan::{Assigned, AssignedIp, AssignedRoute, Attachment, Doer, Plan, Step},
};
use ferroband_model::{Fault, FaultCode, PodRef};
use ipnet::IpNet;
use serde_json::{Map, Value};
use std::{collections::HashSet, net::IpAddr, sync::Arc};

/// Everything that a plan follows from.
#[derive(Debug)]
pub struct Given<'a> {
    /// The pod, with the UID that its addresses are kept under.
    pub pod: &'a PodRef,
    /// What the API server knows of it.
    pub facts: &'a PodFacts,
    /// `CNI_CONTAINERID`.
    pub container: &'a str,
    /// `CNI_IFNAME`: the interface of the default network.
    pub ifname: &'a str,
    /// The default network.
    pub default: &'a DefaultNetwork,
    /// `runtimeConfig` as the runtime gave it. It is meant for the default network alone.
    pub runtime_config: &'a Map<String, Value>,
    /// The networks of the annotation, each with its definition.
    pub networks: &'a [(Selection, Arc<NetworkAttachmentDefinition>)],
}

/// A plan, and the addresses that it needs.
#[derive(Debug)]
pub struct Planned {
    /// What is to be done.
    pub plan: Plan,
    /// Addresses to assign while it is being done.
    pub wanted: Vec<Wanted>,
}

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

/// The networks that a pod asks for besides the default one.
pub fn selections(facts: &PodFacts, namespace: &str) -> Result<Vec<Selection>, Fault> {
    let asked = |annotation| facts.annotations.get(annotation).map(String::as_str).unwrap_or_default();
    // What is left out silently would send the pod's traffic the wrong way.
    let unsupported = |annotation: &str, cause: String| {
        let remedy = "remove it and recreate the pod";
        Fault::new(FaultCode::InvalidAnnotation, format!("annotation {annotation}"), cause, remedy)
    };
    if !asked(DEFAULT_NETWORK).trim().is_empty() {
        return Err(unsupported(DEFAULT_NETWORK, "another default network is not supported".to_owned()));
    }
    let selections = Selection::networks(asked(NETWORKS), namespace).map_err(|e| e.fault())?;
    match selections.iter().find(|selection| selection.default_route.is_some()) {
        Some(selection) => {
            let cause = format!("default-route of network {} is not supported", selection.display_name());
            Err(unsupported(NETWORKS, cause))
        }
        None => Ok(selections),
    }
}

/// The UID to know the pod by, or a fault if the runtime means another pod than the API server.
pub fn settle_uid(pod: &PodRef, facts: &PodFacts) -> Result<PodRef, Fault> {
    if pod.uid.is_empty() {
        return Ok(PodRef { uid: facts.uid.clone(), ..pod.clone() });
    }
    if pod.uid == facts.uid || facts.is_static() {
        return Ok(pod.clone());
    }
    Err(Fault::new(
        FaultCode::PodNotFound,
        format!("pod {pod}"),
        format!("the sandbox is for UID {}, but the pod of that name has UID {} now", pod.uid, facts.uid),
        "nothing: the pod was deleted and made again, and the kubelet starts the new one by itself",
    ))
}

/// Make the plan.
pub fn make(given: &Given<'_>) -> Result<Planned, Fault> {
    let mut attachments = vec![default_attachment(given)?];
    let mut wanted = Vec::new();
    for (position, (selection, definition)) in given.networks.iter().enumerate() {
        let number = position + 1;
        let attachment = attachment(number, selection, definition)?;
        wanted.extend(addresses(given, number, &attachment)?);
        attachments.push(attachment);
    }
    let mut names = HashSet::new();
    for attachment in &attachments {
        if !names.insert(attachment.ifname.as_str()) {
            return Err(Fault::new(
                FaultCode::NameTaken,
                format!("network {}", attachment.network),
                format!("interface {} is asked for twice", attachment.ifname),
                "choose another interface name in the annotation",
            ));
        }
    }
    Ok(Planned { plan: Plan { pod: given.pod.clone(), attachments }, wanted })
}

fn default_attachment(given: &Given<'_>) -> Result<Attachment, Fault> {
    let network = &given.default.network;
    let steps = network.plugins.iter().cloned().map(|mut config| {
        capability::grant(&mut config, given.runtime_config);
        // Never ours, whatever it is called: it is what the cluster had before.
        Step { config, by: Doer::Foreign }
    });
    Ok(Attachment {
        network: network.name.clone(),
        name: network.name.clone(),
        cni_version: version(&network.name, network)?,
        ifname: given.ifname.to_owned(),
        default: true,
        steps: steps.collect(),
    })
}

fn attachment(
    number: usize,
    selection: &Selection,
    definition: &NetworkAttachmentDefinition,
) -> Result<Attachment, Fault> {
    let network = selection.display_name();
    let config = NetworkConfig::of_definition(definition).map_err(|e| e.fault())?;
    let cni_version = version(&network, &config)?;
    let values = capability::of_selection(selection);
    let steps = config.plugins.into_iter().map(|mut plugin| {
        capability::grant(&mut plugin, &values);
        capability::add_args(&mut plugin, &selection.cni_args);
        step(&network, plugin)
    });
    Ok(Attachment {
        steps: steps.collect::<Result<_, _>>()?,
        name: config.name,
        cni_version,
        // Names by position, whether or not earlier networks ask for names of their own, as Multus counts.
        ifname: selection.interface.clone().unwrap_or_else(|| format!("net{number}")),
        default: false,
        network,
    })
}

fn version(network: &str, config: &NetworkConfig) -> Result<String, Fault> {
    let asked = &config.cni_version;
    match Version::parse(asked) {
        Some(version) => Ok(version.to_string()),
        None => {
            let error = ferroband_attach::Error::IncompatibleVersion { asked: asked.clone() };
            Err(within(network, error.fault()))
        }
    }
}

/// The addresses that the daemon has to find for an attachment.
fn addresses(given: &Given<'_>, number: usize, attachment: &Attachment) -> Result<Option<Wanted>, Fault> {
    let step = attachment.steps.iter().find(|step| matches!(step.by, Doer::Ipoib { addressed: true, .. }));
    let Some(step) = step else { return Ok(None) };
    let what = format!("network {}", attachment.network);
    let ipam = Whereabouts::of_plugin(&step.config).map_err(|e| e.fault(&what))?;
    let requests = ipam.requests(given.pod, given.facts.stateful, &attachment.ifname, given.container);
    Ok(Some(Wanted { attachment: number, network: attachment.network.clone(), ipam, requests }))
}

impl Wanted {
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
