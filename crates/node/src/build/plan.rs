//! Builds the plan of a sandbox.

use super::{
    AttachmentIpRequests, attachment,
    default_routes::set_default_routes,
    partition::{ib_kubernetes_marks, partition_requests},
};
use crate::resolve::{DefaultNetworkChoice, ResolvedAdd};
use ferroband_api::annotation::IbKubernetesMark;
use ferroband_attach::plan::{Attachment, Plan};
use ferroband_model::{Fault, FaultCode};
use std::collections::HashSet;

#[derive(Debug)]
pub struct PlanOutput {
    pub plan: Plan,
    /// Requests for the addresses that are assigned while the plan is being executed.
    pub ip_requests: Vec<AttachmentIpRequests>,
    /// What ib-kubernetes would write into the networks annotation, by position of the attachment; without GUIDs.
    pub marks: Vec<(usize, IbKubernetesMark)>,
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
    let partitions = partition_requests(&attachments)?;
    let marks = ib_kubernetes_marks(&attachments, &partitions);
    let (pod, container) = (resolved.pod.pod.clone(), resolved.pod.container.clone());
    let plan = Plan { pod, container, attachments, membership: false, partitions };
    Ok(PlanOutput { plan, ip_requests, marks })
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
