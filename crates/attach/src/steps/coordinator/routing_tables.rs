//! Per-interface routing tables, so that packets sent to an interface's address are answered through it.

use super::{FIRST_TABLE, POD_VETH, RETURN_TABLE};
use crate::protocol::Error;
use ferroband_config::{CoordinatorConfig, CoordinatorMode};
use ferroband_kernel::rtnetlink::{RouteEntry, RouteSpec, RoutingRule};
use ferroband_kernel::{Link, RouteSocket};
use ipnet::IpNet;

/// Maximum number of per-interface routing tables in a pod, numbered from [`FIRST_TABLE`].
const MAX_TABLES: u32 = 120;

/// Set up a separate routing table for `link`, unless it is the primary interface, which uses the main table. Each
/// address family has its own primary interface.
pub(super) fn tune_routes(
    pod_netlink: &mut RouteSocket,
    step: &CoordinatorConfig,
    link: &Link,
    own: &[IpNet],
    mode: CoordinatorMode,
) -> Result<(), Error> {
    let routes = pod_netlink.all_routes()?;
    let table = free_table(pod_netlink)?;
    for (destination, gateway) in &step.policy_routes {
        let route = RouteSpec { table: Some(table), ..RouteSpec::new(*destination, Some(*gateway)) };
        pod_netlink.append_route(link.index, &route)?;
    }
    let veth = pod_netlink.link(POD_VETH)?;
    // The node reaches every address of the pod through the veth, so replies to the node must take the veth
    // too.
    for entry in routes.iter().filter(|entry| entry.route.table == Some(FIRST_TABLE)) {
        if let Some(veth) = veth.as_ref().filter(|veth| entry.interface == Some(veth.index)) {
            pod_netlink
                .append_route(veth.index, &RouteSpec { table: Some(table), source: None, ..entry.route })?;
        }
    }
    let needs_return_rules = mode == CoordinatorMode::Overlay && !has_rule(pod_netlink, RETURN_TABLE)?;
    for is_v4 in [true, false] {
        let of_family = |net: &IpNet| net.addr().is_ipv4() == is_v4;
        let own: Vec<_> = own.iter().copied().filter(of_family).collect();
        let mut routes = routes.clone();
        routes.retain(|entry| of_family(&entry.route.destination));
        let first = match mode {
            CoordinatorMode::Overlay => pod_netlink.link("eth0")?,
            _ => primary_interface(pod_netlink, &routes, link, veth.as_ref())?,
        };
        let Some(first) = first.filter(|first| first.index != link.index) else {
            if !step.policy_routes.is_empty() {
                add_source_rules(pod_netlink, &own, table)?;
            }
            continue;
        };
        let mut addresses = pod_netlink.addresses(first.index)?;
        addresses.retain(of_family);
        if needs_return_rules {
            // eth0 must answer through eth0 even if another interface gets the default route.
            copy_routes(pod_netlink, &routes, &first, RETURN_TABLE, RouteEntry::is_default)?;
            add_source_rules(pod_netlink, &addresses, RETURN_TABLE)?;
        }
        let is_default_nic = step.default_route.as_deref() == Some(link.name.as_str());
        if is_default_nic && main_routes_of(&routes, link).any(RouteEntry::is_default) {
            let table = if mode == CoordinatorMode::Overlay { RETURN_TABLE } else { table };
            copy_routes(pod_netlink, &routes, &first, table, RouteEntry::is_default)?;
            add_source_rules(pod_netlink, &addresses, table)?;
            remove_routes(pod_netlink, &routes, &first, RouteEntry::is_default)?;
        } else {
            copy_routes(pod_netlink, &routes, link, table, |_| true)?;
            remove_routes(pod_netlink, &routes, link, |entry| entry.protocol != RTPROT_KERNEL)?;
            add_source_rules(pod_netlink, &own, table)?;
        }
    }
    Ok(())
}

/// From linux/rtnetlink.h: routes added by the kernel, such as the one to an interface's own subnet.
const RTPROT_KERNEL: u8 = 2;

/// The interface that has the pod's default route in underlay mode. `routes` are those of one address family.
///
/// The plugin that created `link` may just have added a default route, which may come first in the table. It does not
/// make `link` the primary interface if another interface has a default route. Without any default route, eth0 is the
/// primary interface. The veth is never.
fn primary_interface(
    pod_netlink: &mut RouteSocket,
    routes: &[RouteEntry],
    link: &Link,
    veth: Option<&Link>,
) -> Result<Option<Link>, Error> {
    let veth = veth.map(|veth| veth.index);
    let default_routes = routes.iter().filter(|entry| entry.is_main_unicast() && entry.is_default());
    let mut interfaces: Vec<_> =
        default_routes.filter_map(|entry| entry.interface).filter(|index| Some(*index) != veth).collect();
    interfaces.sort_by_key(|index| *index == link.index);
    match interfaces.first() {
        Some(index) => Ok(pod_netlink.link_by_index(*index)?),
        None => Ok(pod_netlink.link("eth0")?),
    }
}

/// Add policy routing rules, so that packets from `addresses` use `table`.
fn add_source_rules(pod_netlink: &mut RouteSocket, addresses: &[IpNet], table: u32) -> Result<(), Error> {
    for address in super::setup::global_only(addresses.to_vec()) {
        pod_netlink.add_rule(&RoutingRule::from_source(address.addr().into(), table))?;
    }
    Ok(())
}

fn copy_routes(
    pod_netlink: &mut RouteSocket,
    routes: &[RouteEntry],
    link: &Link,
    table: u32,
    which: impl Fn(&RouteEntry) -> bool,
) -> Result<(), Error> {
    // Routes without a gateway first: a gateway must be reachable through one of them.
    let mut own: Vec<_> = main_routes_of(routes, link).filter(|entry| which(entry)).collect();
    own.sort_by_key(|entry| entry.route.gateway.is_some());
    let subnets = main_routes_of(routes, link).filter(|entry| entry.route.gateway.is_none());
    for entry in subnets.chain(own) {
        pod_netlink.append_route(link.index, &RouteSpec { table: Some(table), ..entry.route })?;
    }
    Ok(())
}

fn remove_routes(
    pod_netlink: &mut RouteSocket,
    routes: &[RouteEntry],
    link: &Link,
    which: impl Fn(&RouteEntry) -> bool,
) -> Result<(), Error> {
    for entry in main_routes_of(routes, link).filter(|entry| which(entry)) {
        pod_netlink.remove_route(link.index, &entry.route)?;
    }
    Ok(())
}

/// Unicast routes of the main table through `link`, without those to link-local and multicast destinations.
fn main_routes_of<'a>(routes: &'a [RouteEntry], link: &Link) -> impl Iterator<Item = &'a RouteEntry> {
    let index = link.index;
    let is_routable = |entry: &&RouteEntry| !is_link_local(entry.route.destination);
    routes
        .iter()
        .filter(move |entry| entry.is_main_unicast() && entry.interface == Some(index))
        .filter(is_routable)
}

fn is_link_local(destination: IpNet) -> bool {
    match destination {
        IpNet::V4(_) => false,
        IpNet::V6(v6) => v6.addr().is_unicast_link_local() || v6.addr().is_multicast(),
    }
}

/// The first per-interface table that no rule uses. Fails if all of them are used.
fn free_table(pod_netlink: &mut RouteSocket) -> Result<u32, Error> {
    let used: Vec<_> = pod_netlink.rules()?.iter().map(|rule| rule.table).collect();
    let free = (FIRST_TABLE..FIRST_TABLE + MAX_TABLES).find(|table| !used.contains(table));
    free.ok_or(Error::UnexpectedReply { expected: "a free routing table" })
}

fn has_rule(pod_netlink: &mut RouteSocket, table: u32) -> Result<bool, Error> {
    Ok(pod_netlink.rules()?.iter().any(|rule| rule.table == table))
}
