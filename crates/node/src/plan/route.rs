//! Which attachment the pod's default routes go through.

use ferroband_api::annotation::{NETWORKS, NetworkSelection};
use ferroband_attach::plan::{Attachment, DefaultRoute, DefaultRoutes};
use ferroband_model::{Fault, FaultCode};
use std::net::IpAddr;

/// Tell every attachment what becomes of its default routes. `asked` are the selections by position in the plan.
///
/// A gateway that is asked for takes the default route of its family away from all other interfaces; the other family
/// stays as it is. A list without a gateway takes away both, where no other network asks for one.
pub fn set_default_routes(
    attachments: &mut [Attachment],
    asked: &[(usize, &NetworkSelection)],
) -> Result<(), Fault> {
    let asked: Vec<_> =
        asked.iter().filter_map(|(position, s)| Some((*position, s.default_route.as_ref()?))).collect();
    if asked.is_empty() {
        return Ok(());
    }
    let emptied = asked.iter().any(|(_, gateways)| gateways.is_empty());
    let gateway = |v4: bool| {
        let all =
            asked.iter().flat_map(|(position, gateways)| gateways.iter().map(move |ip| (*position, *ip)));
        let mut of_family = all.filter(|(_, gateway)| gateway.is_ipv4() == v4);
        match (of_family.next(), of_family.next()) {
            (_, Some(_)) => Err(several_gateways(v4)),
            (only, None) => Ok(only),
        }
    };
    let wish = |only: Option<(usize, IpAddr)>, position: usize| match only {
        Some((chosen, gateway)) if chosen == position => DefaultRoute::Via(gateway),
        Some(_) => DefaultRoute::Remove,
        None if emptied => DefaultRoute::Remove,
        None => DefaultRoute::Keep,
    };
    let (v4, v6) = (gateway(true)?, gateway(false)?);
    for (position, attachment) in attachments.iter_mut().enumerate() {
        attachment.default_routes = DefaultRoutes { v4: wish(v4, position), v6: wish(v6, position) };
    }
    Ok(())
}

fn several_gateways(v4: bool) -> Fault {
    let family = if v4 { "IPv4" } else { "IPv6" };
    Fault::new(
        FaultCode::InvalidAnnotation,
        format!("annotation {NETWORKS}"),
        format!("more than one {family} default-route; ECMP is not supported"),
        "keep one, and recreate the pod",
    )
}
