//! Builds the plan of a sandbox, and determines which partitions its ports must be members of.

use super::{AttachmentIpRequests, attachment};
use crate::kubelet::PodDevices;
use crate::resolve::{DefaultNetworkChoice, ResolvedAdd};
use ferroband_api::annotation::{IbKubernetesMark, NETWORKS, NetworkSelection};
use ferroband_attach::plan::{Attachment, DefaultRoute, DefaultRoutes, Plan, StepKind};
use ferroband_config::{capabilities, pkey_text};
use ferroband_model::{Fault, FaultCode, PodPartitionRequest, RequestedPKey, RequestedPort};
use std::collections::HashSet;
use std::net::IpAddr;

#[derive(Debug)]
pub struct PlanOutput {
    pub plan: Plan,
    /// Requests for the addresses that are assigned while the plan is being executed.
    pub ip_requests: Vec<AttachmentIpRequests>,
    /// What ib-kubernetes would write into the networks annotation, by position of the attachment; without GUIDs.
    pub marks: Vec<(usize, IbKubernetesMark)>,
    /// All devices that were allocated to the pod.
    pub devices: PodDevices,
}

/// Builds the plan of a pod. Networks take the pod's devices in the order of the attachments.
pub fn build_plan(resolved: &ResolvedAdd) -> Result<PlanOutput, Fault> {
    let mut selections = Vec::new();
    let mut devices = resolved.devices.clone();
    let default = match &resolved.default {
        DefaultNetworkChoice::Wrapped(network) => attachment::build_wrapped(resolved, network)?,
        DefaultNetworkChoice::Resolved(network) => {
            selections.push((0, &network.selection));
            attachment::build_resolved(resolved, 0, network, &mut devices)?
        }
    };
    let mut attachments = vec![default];
    for (position, network) in resolved.networks.iter().enumerate() {
        selections.push((position + 1, &network.selection));
        attachments.push(attachment::build_resolved(resolved, position + 1, network, &mut devices)?);
    }
    check_unique_ifnames(&attachments)?;
    set_default_routes(&mut attachments, &selections)?;
    let ip_requests = attachments
        .iter()
        .enumerate()
        .filter_map(|(at, attachment)| AttachmentIpRequests::for_attachment(&resolved.pod, at, attachment));
    let ip_requests = ip_requests.collect::<Result<Vec<_>, _>>()?;
    let partitions = partition_requests(&attachments);
    let marks = ib_kubernetes_marks(&attachments, &partitions);
    let (pod, container) = (resolved.pod.pod.clone(), resolved.pod.container.clone());
    let plan = Plan { pod, container, attachments, membership: false, partitions };
    Ok(PlanOutput { plan, ip_requests, marks, devices: resolved.devices.clone() })
}

fn check_unique_ifnames(attachments: &[Attachment]) -> Result<(), Fault> {
    let mut names = HashSet::new();
    for attachment in attachments {
        if !names.insert(attachment.ifname.as_str()) {
            return Err(Fault::new(
                FaultCode::NameTaken,
                format!("network {}", attachment.network),
                format!("interface {} is requested twice", attachment.ifname),
                "give each network in the pod's annotation a different interface name",
            ));
        }
    }
    Ok(())
}

/// Sets the default routes of every attachment. `selections` contains each network selection with its
/// position in the plan.
///
/// If a network requests a gateway (`default-route`), all other interfaces lose their default route of the
/// same address family; the other family is unchanged. An empty `default-route` list removes the default
/// routes of both families, unless another network requests a gateway.
fn set_default_routes(
    attachments: &mut [Attachment],
    selections: &[(usize, &NetworkSelection)],
) -> Result<(), Fault> {
    let selections: Vec<_> =
        selections.iter().filter_map(|(position, s)| Some((*position, s.default_route.as_ref()?))).collect();
    if selections.is_empty() {
        return Ok(());
    }
    let remove_all = selections.iter().any(|(_, gateways)| gateways.is_empty());
    let gateway = |v4: bool| {
        let all = selections
            .iter()
            .flat_map(|(position, gateways)| gateways.iter().map(move |ip| (*position, *ip)));
        let mut of_family = all.filter(|(_, gateway)| gateway.is_ipv4() == v4);
        match (of_family.next(), of_family.next()) {
            (_, Some(_)) => Err(several_gateways(v4)),
            (only, None) => Ok(only),
        }
    };
    let default_route = |only: Option<(usize, IpAddr)>, position: usize| match only {
        Some((with_gateway, gateway)) if with_gateway == position => DefaultRoute::Via(gateway),
        Some(_) => DefaultRoute::Remove,
        None if remove_all => DefaultRoute::Remove,
        None => DefaultRoute::Keep,
    };
    let (v4, v6) = (gateway(true)?, gateway(false)?);
    for (position, attachment) in attachments.iter_mut().enumerate() {
        attachment.default_routes =
            DefaultRoutes { v4: default_route(v4, position), v6: default_route(v6, position) };
    }
    Ok(())
}

fn several_gateways(v4: bool) -> Fault {
    let family = if v4 { "IPv4" } else { "IPv6" };
    Fault::new(
        FaultCode::InvalidAnnotation,
        format!("annotation {NETWORKS}"),
        format!("more than one {family} default-route; ECMP is not supported"),
        "keep only one gateway of this address family, and recreate the pod",
    )
}

/// Returns one request for each virtual function and for each IPoIB child interface with a P_Key.
pub fn partition_requests(attachments: &[Attachment]) -> Vec<PodPartitionRequest> {
    let mut requests = Vec::new();
    for (position, attachment) in attachments.iter().enumerate() {
        for step in &attachment.steps {
            let (port, pkey, limited) = match &step.kind {
                StepKind::IbSriov { vf, .. } => {
                    (RequestedPort::Function { pci: vf.device, guid: vf.guid }, vf.pkey, vf.limited)
                }
                // A child without a P_Key uses its parent's partition, which is not managed.
                StepKind::Ipoib { child, .. } => match child.pkey {
                    Some(key) => (
                        RequestedPort::Parent(child.parent.clone()),
                        RequestedPKey::new(key.base()),
                        child.limited,
                    ),
                    None => continue,
                },
                _ => continue,
            };
            let (network, ifname) = (attachment.network.clone(), attachment.ifname.clone());
            requests.push(PodPartitionRequest { attachment: position, network, ifname, pkey, limited, port });
        }
    }
    requests
}

/// Returns what ib-kubernetes would write into the networks annotation for each virtual function, with the position
/// of its attachment. The GUID is filled in when it is known.
pub fn ib_kubernetes_marks(
    attachments: &[Attachment],
    requests: &[PodPartitionRequest],
) -> Vec<(usize, IbKubernetesMark)> {
    let functions = requests.iter().filter(|request| matches!(request.port, RequestedPort::Function { .. }));
    let mark = |request: &PodPartitionRequest| {
        let steps = &attachments.get(request.attachment)?.steps;
        // ib-kubernetes repeats the P_Key as the network's configuration spells it.
        let pkey = match steps.iter().find_map(|step| pkey_text(&step.config)) {
            Some(text) => text.to_owned(),
            None => request.pkey.map(|key| format!("{:#x}", key.number())).unwrap_or_default(),
        };
        let mut declared = steps.iter().flat_map(|step| capabilities(&step.config));
        let has_guid_capability = declared.any(|capability| capability == "infinibandGUID");
        let mark = IbKubernetesMark { position: 0, guid: String::new(), pkey, has_guid_capability };
        Some((request.attachment, mark))
    };
    functions.filter_map(mark).collect()
}

#[cfg(test)]
mod tests;
