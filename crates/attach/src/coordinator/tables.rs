//! A routing table for each interface, so that what was sent to its address is answered through it.

use super::{FIRST_TABLE, POD_VETH, RETURN_TABLE};
use crate::Error;
use crate::plan::{CoordinatorMode, CoordinatorStep};
use ferroband_kernel::rtnetlink::{RouteEntry, RouteSpec, RoutingRule};
use ferroband_kernel::{Link, RouteSocket};
use ipnet::IpNet;

/// Interfaces that a pod can have a table for.
const MAX_TABLES: u32 = 120;

/// Give `link` a table of its own, unless it is the one whose routes are everybody's.
pub(super) fn tune_routes(
    inside: &mut RouteSocket,
    step: &CoordinatorStep,
    link: &Link,
    own: &[IpNet],
    mode: CoordinatorMode,
) -> Result<(), Error> {
    let routes = inside.all_routes()?;
    let first = match mode {
        CoordinatorMode::Overlay => inside.link("eth0")?,
        // The first interface in the pod of this kind is the one with the wire.
        _ => primary_interface(inside, &routes)?,
    };
    let table = free_table(inside)?;
    for (destination, gateway) in &step.policy_routes {
        let route = RouteSpec { table: Some(table), ..RouteSpec::new(*destination, Some(*gateway)) };
        inside.append_route(link.index, &route)?;
    }
    // The node asks every address of the pod through the wire, and is to be answered through it.
    for entry in routes.iter().filter(|entry| entry.route.table == Some(FIRST_TABLE)) {
        if let Some(wire) = inside.link(POD_VETH)?.filter(|wire| entry.interface == Some(wire.index)) {
            inside
                .append_route(wire.index, &RouteSpec { table: Some(table), source: None, ..entry.route })?;
        }
    }
    let is_first = first.as_ref().is_none_or(|first| first.index == link.index);
    let takes_over = step.default_route.as_deref() == Some(link.name.as_str());
    if let Some(first) = first.filter(|_| !is_first) {
        if mode == CoordinatorMode::Overlay && !has_rule(inside, RETURN_TABLE)? {
            // So that eth0 answers through eth0 even if another interface gets the default route.
            let addresses = inside.addresses(first.index)?;
            copy_routes(inside, &routes, &first, RETURN_TABLE, RouteEntry::is_default)?;
            add_source_rules(inside, &addresses, RETURN_TABLE)?;
        }
        if takes_over {
            let table = if mode == CoordinatorMode::Overlay { RETURN_TABLE } else { free_table(inside)? };
            let addresses = inside.addresses(first.index)?;
            copy_routes(inside, &routes, &first, table, RouteEntry::is_default)?;
            add_source_rules(inside, &addresses, table)?;
            remove_routes(inside, &routes, &first, RouteEntry::is_default)?;
        } else {
            copy_routes(inside, &routes, link, table, |_| true)?;
            remove_routes(inside, &routes, link, |entry| entry.protocol != RTPROT_KERNEL)?;
        }
    }
    let ruled = !is_first || !step.policy_routes.is_empty();
    if ruled && !takes_over { add_source_rules(inside, own, table) } else { Ok(()) }
}

/// RTPROT_KERNEL of linux/rtnetlink.h: the route to an interface's own subnet, which the kernel would miss.
const RTPROT_KERNEL: u8 = 2;

/// The interface that all of the pod's traffic goes through by itself.
fn primary_interface(inside: &mut RouteSocket, routes: &[RouteEntry]) -> Result<Option<Link>, Error> {
    let wire = inside.link(POD_VETH)?.map(|wire| wire.index);
    let leads_out =
        |entry: &&RouteEntry| entry.is_main_unicast() && entry.is_default() && entry.interface != wire;
    match routes.iter().find(leads_out).and_then(|entry| entry.interface) {
        Some(index) => Ok(inside.link_by_index(index)?),
        None => Ok(inside.link("eth0")?),
    }
}

/// Packets from these addresses look into `table`.
fn add_source_rules(inside: &mut RouteSocket, addresses: &[IpNet], table: u32) -> Result<(), Error> {
    for address in super::join::global_only(addresses.to_vec()) {
        inside.add_rule(&RoutingRule::from_source(address.addr().into(), table))?;
    }
    Ok(())
}

fn copy_routes(
    inside: &mut RouteSocket,
    routes: &[RouteEntry],
    link: &Link,
    table: u32,
    which: impl Fn(&RouteEntry) -> bool,
) -> Result<(), Error> {
    // Routes to subnets first: a gateway must be in one of them.
    let mut own: Vec<_> = main_routes_of(routes, link).filter(|entry| which(entry)).collect();
    own.sort_by_key(|entry| entry.route.gateway.is_some());
    let subnets = main_routes_of(routes, link).filter(|entry| entry.route.gateway.is_none());
    for entry in subnets.chain(own) {
        inside.append_route(link.index, &RouteSpec { table: Some(table), ..entry.route })?;
    }
    Ok(())
}

fn remove_routes(
    inside: &mut RouteSocket,
    routes: &[RouteEntry],
    link: &Link,
    which: impl Fn(&RouteEntry) -> bool,
) -> Result<(), Error> {
    for entry in main_routes_of(routes, link).filter(|entry| which(entry)) {
        inside.remove_route(link.index, &entry.route)?;
    }
    Ok(())
}

/// The routes of the main table through `link` that lead somewhere.
fn main_routes_of<'a>(routes: &'a [RouteEntry], link: &Link) -> impl Iterator<Item = &'a RouteEntry> {
    let index = link.index;
    let somewhere = |entry: &&RouteEntry| !is_link_local(entry.route.destination);
    routes
        .iter()
        .filter(move |entry| entry.is_main_unicast() && entry.interface == Some(index))
        .filter(somewhere)
}

fn is_link_local(destination: IpNet) -> bool {
    match destination {
        IpNet::V4(_) => false,
        IpNet::V6(v6) => v6.addr().is_unicast_link_local() || v6.addr().is_multicast(),
    }
}

/// A table that nothing leads to yet.
fn free_table(inside: &mut RouteSocket) -> Result<u32, Error> {
    let used: Vec<_> = inside.rules()?.iter().map(|rule| rule.table).collect();
    let free = (FIRST_TABLE..FIRST_TABLE + MAX_TABLES).find(|table| !used.contains(table));
    free.ok_or(Error::UnexpectedReply { wanted: "a free routing table" })
}

fn has_rule(inside: &mut RouteSocket, table: u32) -> Result<bool, Error> {
    Ok(inside.rules()?.iter().any(|rule| rule.table == table))
}
