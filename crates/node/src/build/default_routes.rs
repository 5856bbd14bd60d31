//! Selects the attachments that provide the pod's default routes.

use ferroband_api::annotation::{NETWORKS, NetworkSelection};
use ferroband_attach::plan::{Attachment, DefaultRoute, DefaultRoutes};
use ferroband_model::{Fault, FaultCode};
use std::net::IpAddr;

/// Sets the default routes of every attachment. `selections` contains each network selection with its
/// position in the plan.
///
/// If a network requests a gateway (`default-route`), all other interfaces lose their default route of the
/// same address family; the other family is unchanged. An empty `default-route` list removes the default
/// routes of both families, unless another network requests a gateway.
pub fn set_default_routes(
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
