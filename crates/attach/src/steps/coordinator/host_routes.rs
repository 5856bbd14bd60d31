//! The node's routes to pods, in a routing table of their own.
//!
//! The rule of this table precedes the node's main table. A pod must therefore not get a route to an address that belongs
//! to somebody else, or it would receive that one's traffic.

use super::HOST_RULE_PRIORITY;
use super::setup::global_only;
use crate::protocol::Error;
use crate::steps::ipoib;
use ferroband_config::CoordinatorConfig;
use ferroband_kernel::rtnetlink::{RouteEntry, RouteSpec, RoutingRule};
use ferroband_kernel::{Link, RouteSocket};
use ipnet::IpNet;
use std::net::IpAddr;

/// The rule that selects `table` for all packets of one family. All pods share it.
pub(super) fn host_rule(v6: bool, table: u32) -> RoutingRule {
    RoutingRule { priority: Some(HOST_RULE_PRIORITY), ..RoutingRule::for_family(v6, table) }
}

/// Fail if `table` is not ours: another rule selects it.
pub(super) fn check_table(host_netlink: &mut RouteSocket, table: u32) -> Result<(), Error> {
    let rules = host_netlink.rules()?;
    let foreign = rules.iter().find(|rule| rule.table == table && **rule != host_rule(rule.v6, table));
    match foreign {
        Some(rule) => Err(Error::TableInUse { table, rule: rule.to_string() }),
        None => Ok(()),
    }
}

/// The node's routes to one interface of a pod.
pub(super) struct HostRoutes<'a> {
    pub(super) step: &'a CoordinatorConfig,
    /// The node's end of the veth pair.
    pub(super) veth: &'a str,
    pub(super) pod_veth: &'a Link,
    pub(super) ifname: &'a str,
    /// Whether the addresses come from SpiderIPPools.
    pub(super) from_pools: bool,
}

impl HostRoutes<'_> {
    /// Add routes to `addresses` through the veth pair, and the policy routing rule that selects their table. Fail if an
    /// address belongs to somebody else.
    pub(super) fn add(&self, addresses: &[IpAddr]) -> Result<(), Error> {
        let mut host_netlink = RouteSocket::open()?;
        let host_veth = ipoib::find_link(&mut host_netlink, self.veth, "the host")?;
        let node = node_addresses(&mut host_netlink)?;
        let routes = host_netlink.all_routes()?;
        for address in addresses {
            let owner = match self.cluster_owner(*address) {
                Some(owner) => Some(owner),
                None => find_owner(&mut host_netlink, &routes, *address, host_veth.index)?,
            };
            if let Some(owner) = owner {
                return Err(Error::AddressInUse { ifname: self.ifname.to_owned(), address: *address, owner });
            }
        }
        for address in addresses {
            host_netlink.set_neighbour(host_veth.index, *address, &self.pod_veth.address)?;
            let source = node.iter().copied().find(|node| node.is_ipv4() == address.is_ipv4());
            let table = self.step.host_rule_table;
            let route = RouteSpec { table: Some(table), source, ..RouteSpec::new((*address).into(), None) };
            host_netlink.append_route(host_veth.index, &route)?;
            host_netlink.add_rule(&host_rule(address.is_ipv6(), table))?;
        }
        Ok(())
    }

    /// What of the cluster the address belongs to. In a cluster whose pods all use underlay networks, SpiderIPPools may
    /// have the subnets of the cluster network.
    fn cluster_owner(&self, address: IpAddr) -> Option<String> {
        let find = |subnets: &[IpNet]| subnets.iter().find(|subnet| subnet.contains(&address)).copied();
        let service = find(&self.step.services).map(|subnet| format!("Services ({subnet})"));
        let pods = find(&self.step.pods).filter(|_| !self.from_pools);
        service.or_else(|| pods.map(|subnet| format!("pods of the cluster network ({subnet})")))
    }
}

/// Whose address this is, if it is the node's, a Service's that kube-proxy configured on the node, or another pod's: the
/// node has a route to exactly this address that does not go through `own`.
fn find_owner(
    host_netlink: &mut RouteSocket,
    routes: &[RouteEntry],
    address: IpAddr,
    own: u32,
) -> Result<Option<String>, Error> {
    let to = IpNet::from(address);
    let other = |entry: &&RouteEntry| entry.route.destination == to && entry.interface != Some(own);
    let Some(entry) = routes.iter().find(other) else { return Ok(None) };
    let link = entry.interface.map(|index| host_netlink.link_by_index(index)).transpose()?.flatten();
    let name = link.map_or_else(|| "the node".to_owned(), |link| format!("interface {}", link.name));
    Ok(Some(name))
}

/// The node's own addresses. Those of interfaces with a default route come first.
pub(super) fn node_addresses(host_netlink: &mut RouteSocket) -> Result<Vec<IpAddr>, Error> {
    let routes = host_netlink.all_routes()?;
    let has_default_route = |index: u32| {
        routes
            .iter()
            .any(|entry| entry.is_main_unicast() && entry.is_default() && entry.interface == Some(index))
    };
    let mut found = Vec::new();
    for link in host_netlink.links()? {
        // Addresses of pods' veths are not the node's own, unless a default route goes through the veth.
        let is_pod_veth = link.kind.as_deref() == Some("veth") && !has_default_route(link.index);
        if link.name == "lo" || is_pod_veth || !link.up {
            continue;
        }
        for address in global_only(host_netlink.addresses(link.index)?) {
            found.push((!has_default_route(link.index), link.index, address.addr()));
        }
    }
    found.sort_by_key(|(no_default_route, index, _)| (*no_default_route, *index));
    Ok(found.into_iter().map(|(_, _, address)| address).collect())
}
