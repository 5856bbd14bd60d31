//! Default routes of the pod, as requested by the `default-route` key of the pod's annotation.
//!
//! Every plugin may have added a default route, so this runs after all of them: it first removes the unwanted ones from
//! the pod's main table, then adds the requested one. (Upstream compares with a route without destination, which its
//! netlink library no longer reports, and so removes nothing.)

use crate::ipc::plan::{Attachment, DefaultRoute, DefaultRoutes};
use crate::protocol::result::ResultRoute;
use crate::protocol::{CniResult, Error};
use crate::steps::ipoib;
use ferroband_kernel::RouteSocket;
use ferroband_kernel::rtnetlink::{RouteEntry, RouteSpec};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde_json::Map;

/// Maximum number of default routes of one family that are removed from one interface.
const MAX_DEFAULT_ROUTES: usize = 64;

/// Apply the default routes that the attachments request.
pub(crate) fn apply(pod_netlink: &mut RouteSocket, attachments: &[&Attachment]) -> Result<(), Error> {
    let on = |attachment: &Attachment, error: Error| error.on_network(&attachment.network);
    for attachment in attachments {
        remove_default_routes(pod_netlink, attachment).map_err(|error| on(attachment, error))?;
    }
    for attachment in attachments {
        add_default_routes(pod_netlink, attachment).map_err(|error| on(attachment, error))?;
    }
    Ok(())
}

fn remove_default_routes(pod_netlink: &mut RouteSocket, attachment: &Attachment) -> Result<(), Error> {
    for (destination, policy) in attachment.default_routes.families() {
        if policy == DefaultRoute::Keep {
            continue;
        }
        // Without an interface there is nothing to remove.
        let Some(link) = pod_netlink.link(&attachment.ifname)? else { continue };
        for _ in 0..MAX_DEFAULT_ROUTES {
            let is_default = |entry: &RouteEntry| {
                entry.is_main_unicast()
                    && entry.interface == Some(link.index)
                    && entry.route.destination == destination
            };
            if !pod_netlink.all_routes()?.iter().any(is_default) {
                break;
            }
            pod_netlink.remove_route(link.index, &RouteSpec::new(destination, None))?;
        }
    }
    Ok(())
}

fn add_default_routes(pod_netlink: &mut RouteSocket, attachment: &Attachment) -> Result<(), Error> {
    for (destination, policy) in attachment.default_routes.families() {
        if let DefaultRoute::Via(gateway) = policy {
            let index = ipoib::find_link(pod_netlink, &attachment.ifname, "the sandbox")?.index;
            pod_netlink.add_route(index, destination, Some(gateway))?;
        }
    }
    Ok(())
}

/// Update an attachment's result to match its default routes, because CHECK compares with the result and
/// network-status shows it.
pub(crate) fn update_result(policies: &DefaultRoutes, result: &mut CniResult) {
    for (destination, policy) in policies.families() {
        if policy == DefaultRoute::Keep {
            continue;
        }
        result.routes.retain(|route| route.dst != destination);
        if let DefaultRoute::Via(gateway) = policy {
            result.routes.push(ResultRoute { dst: destination, gw: Some(gateway), more: Map::new() });
        }
    }
}

impl DefaultRoutes {
    /// The default destination of each family, `0.0.0.0/0` and `::/0`, each with the change that is requested
    /// for it.
    fn families(&self) -> [(IpNet, DefaultRoute); 2] {
        [(Ipv4Net::default().into(), self.v4), (Ipv6Net::default().into(), self.v6)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::CniVersion;
    use serde_json::json;

    #[test]
    fn the_result_lists_the_actual_default_routes() {
        let original = json!({"cniVersion": "1.0.0", "routes": [
            {"dst": "0.0.0.0/0", "gw": "10.9.0.1"}, {"dst": "10.8.0.0/16"}, {"dst": "::/0", "gw": "fd00::1"}]});
        let updated_routes = |v4, v6| {
            let mut result = CniResult::read(&original, CniVersion::V1_0_0).unwrap();
            update_result(&DefaultRoutes { v4, v6 }, &mut result);
            result.write(CniVersion::V1_0_0).unwrap()["routes"].clone()
        };
        assert_eq!(updated_routes(DefaultRoute::Keep, DefaultRoute::Keep), original["routes"]);
        let gateway = DefaultRoute::Via("10.0.0.1".parse().unwrap());
        assert_eq!(
            updated_routes(gateway, DefaultRoute::Remove),
            json!([{"dst": "10.8.0.0/16"}, {"dst": "0.0.0.0/0", "gw": "10.0.0.1"}])
        );
    }
}
