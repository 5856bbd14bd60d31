//! Which interface the pod's default routes go through, where the pod's annotation says so.
//!
//! Every plugin may have set a default route for itself. So this comes after all of them, in the pod's own routing
//! table: first none is left where there shall be none, then the one is set. (Upstream compares with a route without
//! destination, which its netlink library no longer reports, and so removes nothing.)

use crate::plan::{Attachment, DefaultRoute, DefaultRoutes};
use crate::result::ResultRoute;
use crate::{CniResult, Error, ipoib};
use ferroband_kernel::RouteSocket;
use ferroband_kernel::rtnetlink::RouteSpec;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde_json::Map;

/// How many default routes of one family an interface may have before we give up removing them.
const MAX_DEFAULT_ROUTES: usize = 64;

/// Bring the routes of the sandbox into the state that the attachments ask for.
pub(crate) fn apply(inside: &mut RouteSocket, attachments: &[&Attachment]) -> Result<(), Error> {
    let on = |attachment: &Attachment, error: Error| error.on_network(&attachment.network);
    for attachment in attachments {
        remove_default_routes(inside, attachment).map_err(|error| on(attachment, error))?;
    }
    for attachment in attachments {
        add_default_routes(inside, attachment).map_err(|error| on(attachment, error))?;
    }
    Ok(())
}

fn remove_default_routes(inside: &mut RouteSocket, attachment: &Attachment) -> Result<(), Error> {
    for (destination, wish) in attachment.default_routes.families() {
        if wish == DefaultRoute::Keep {
            continue;
        }
        // A plugin need not have made an interface; then there is nothing to remove.
        let Some(link) = inside.link(&attachment.ifname)? else { continue };
        for _ in 0..MAX_DEFAULT_ROUTES {
            let mut routes = inside.routes(link.index)?.into_iter();
            if !routes.any(|path| path.destination == destination) {
                break;
            }
            inside.remove_route(link.index, &RouteSpec::new(destination, None))?;
        }
    }
    Ok(())
}

fn add_default_routes(inside: &mut RouteSocket, attachment: &Attachment) -> Result<(), Error> {
    for (destination, wish) in attachment.default_routes.families() {
        if let DefaultRoute::Via(gateway) = wish {
            let index = ipoib::find_link(inside, &attachment.ifname, "the sandbox")?.index;
            inside.add_route(index, destination, Some(gateway))?;
        }
    }
    Ok(())
}

/// Let a result say what was done: CHECK compares with it, and network-status shows it.
pub(crate) fn update_result(wishes: &DefaultRoutes, result: &mut CniResult) {
    for (destination, wish) in wishes.families() {
        if wish == DefaultRoute::Keep {
            continue;
        }
        result.routes.retain(|route| route.dst != destination);
        if let DefaultRoute::Via(gateway) = wish {
            result.routes.push(ResultRoute { dst: destination, gw: Some(gateway), more: Map::new() });
        }
    }
}

impl DefaultRoutes {
    /// The destination of each family's default route, with what becomes of it.
    fn families(&self) -> [(IpNet, DefaultRoute); 2] {
        [(Ipv4Net::default().into(), self.v4), (Ipv6Net::default().into(), self.v6)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CniVersion;
    use serde_json::json;

    #[test]
    fn a_result_tells_the_routes_that_are_there() {
        let given = json!({"cniVersion": "1.0.0", "routes": [
            {"dst": "0.0.0.0/0", "gw": "10.9.0.1"}, {"dst": "10.8.0.0/16"}, {"dst": "::/0", "gw": "fd00::1"}]});
        let told = |v4, v6| {
            let mut result = CniResult::read(&given, CniVersion::V1_0_0).unwrap();
            update_result(&DefaultRoutes { v4, v6 }, &mut result);
            result.write(CniVersion::V1_0_0).unwrap()["routes"].clone()
        };
        assert_eq!(told(DefaultRoute::Keep, DefaultRoute::Keep), given["routes"]);
        let gateway = DefaultRoute::Via("10.0.0.1".parse().unwrap());
        assert_eq!(
            told(gateway, DefaultRoute::Remove),
            json!([{"dst": "10.8.0.0/16"}, {"dst": "0.0.0.0/0", "gw": "10.0.0.1"}])
        );
    }
}
