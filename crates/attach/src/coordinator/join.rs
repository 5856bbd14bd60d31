//! Making the ways.

use super::{BACK, FIRST, LAST, MARK, POD_END, PRIORITY, host_end, tables};
use crate::plan::{CoordinatorMode, CoordinatorStep};
use crate::{Error, Lock, Machine, Point, ipoib};
use ferroband_kernel::route::{Kind, NewLink, RouteSpec, Rule};
use ferroband_kernel::{Link, Netns, Route, netfilter};
use ipnet::IpNet;
use std::net::IpAddr;

/// What joining takes.
pub(crate) struct Joining<'a> {
    pub(crate) machine: &'a Machine<'a>,
    pub(crate) netns: &'a Netns,
    pub(crate) inside: &'a mut Route,
    pub(crate) container: &'a str,
    /// The interface of the network that the step belongs to.
    pub(crate) ifname: &'a str,
}

impl Joining<'_> {
    /// Whether a wire to the node has to be made: then it must be in the journal first.
    pub(crate) fn needs_wire(&mut self, step: &CoordinatorStep) -> Result<bool, Error> {
        let wired = self.inside.link(POD_END)?.is_some();
        Ok(self.mode(step, wired) == CoordinatorMode::Underlay && !wired)
    }

    /// Make the ways.
    pub(crate) fn run(&mut self, step: &CoordinatorStep) -> Result<(), Error> {
        let wired = self.inside.link(POD_END)?.is_some();
        let mode = self.mode(step, wired);
        if mode == CoordinatorMode::Disabled {
            return Ok(());
        }
        let link = ipoib::find(self.inside, self.ifname, "the sandbox")?;
        let own: Vec<IpNet> = global(self.inside.addresses(link.index)?);
        if let Some(filter) = step.filter {
            for interface in ["all", "default", self.ifname] {
                let setting = format!("net/ipv4/conf/{interface}/rp_filter");
                ipoib::sysctl(self.machine, self.netns, &setting, &filter.to_string())?;
            }
        }
        if let Some(packets) = step.queue {
            self.inside.set_queue(link.index, packets)?;
        }
        if mode == CoordinatorMode::Underlay && !wired {
            self.wire(step, &own)?;
        } else if mode == CoordinatorMode::Underlay {
            // The wire is there; the node must find this address through it as well.
            self.lead_here(step, &own)?;
        }
        if step.tune {
            tables::tune(self.inside, step, &link, &own, mode)?;
        }
        (self.machine.watch)(Point::Routed);
        Ok(())
    }

    fn mode(&self, step: &CoordinatorStep, wired: bool) -> CoordinatorMode {
        match step.mode {
            CoordinatorMode::Auto if self.ifname == "eth0" || wired => CoordinatorMode::Underlay,
            CoordinatorMode::Auto => CoordinatorMode::Overlay,
            mode => mode,
        }
    }

    /// A wire between pod and node, and what goes through it.
    fn wire(&mut self, step: &CoordinatorStep, own: &[IpNet]) -> Result<(), Error> {
        let name = host_end(self.container);
        let passing = format!("vetp{}", name.trim_start_matches("veth"));
        let mut here = Route::here()?;
        // Of a container whose identifier begins the same way and which is long gone.
        if let Some(old) = here.link(&name)?.filter(|link| link.kind.as_deref() == Some("veth")) {
            here.delete(old.index)?;
        }
        let kind = Kind::Veth { peer: &passing };
        here.create(&NewLink { mtu: Some(step.mtu), up: true, ..NewLink::new(&name, kind) })?;
        (self.machine.watch)(Point::Made);
        let end = ipoib::find(&mut here, &passing, "the host")?;
        here.move_to(end.index, self.netns)?;
        (self.machine.watch)(Point::Moved);
        let end = ipoib::find(self.inside, &passing, "the sandbox")?;
        self.inside.rename(end.index, POD_END)?;
        (self.machine.watch)(Point::Named);
        if let Some(filter) = step.filter {
            let setting = format!("net/ipv4/conf/{POD_END}/rp_filter");
            ipoib::sysctl(self.machine, self.netns, &setting, &filter.to_string())?;
        }
        if let Some(address) = step.address {
            self.inside.add_address(end.index, address.into())?;
        }
        self.inside.up(end.index)?;
        let node_end = ipoib::find(&mut here, &name, "the host")?;
        let node = node_addresses(&mut here)?;
        self.lead_out(step, own, &end, &node_end, &node)?;
        // What the node or a pod of the cluster's own network begins is answered through the wire, whatever its address.
        // Without it those are reached whose subnets are known.
        netfilter::answer_by_mark(self.netns, POD_END, MARK)?;
        self.lead_here(step, own)
    }

    /// In the pod: the node's addresses, and through the first of them what the node knows the way to.
    fn lead_out(
        &mut self,
        step: &CoordinatorStep,
        own: &[IpNet],
        end: &Link,
        node_end: &Link,
        node: &[IpAddr],
    ) -> Result<(), Error> {
        for address in node {
            let Some(source) = of_family(own, *address) else { continue };
            self.inside.set_neighbour(end.index, *address, &node_end.address)?;
            for table in [RouteSpec::MAIN, FIRST] {
                let to = RouteSpec {
                    table: Some(table),
                    source: Some(source),
                    ..RouteSpec::to((*address).into(), None)
                };
                self.inside.append_route(end.index, &to)?;
            }
        }
        for v4 in [true, false] {
            let gateway = node.iter().copied().find(|address| address.is_ipv4() == v4);
            let Some((gateway, source)) =
                gateway.and_then(|gateway| Some((gateway, of_family(own, gateway)?)))
            else {
                continue;
            };
            let through = |destination, table| RouteSpec {
                table: Some(table),
                source: Some(source),
                ..RouteSpec::to(destination, Some(gateway))
            };
            for subnet in step.subnets.iter().filter(|subnet| subnet.addr().is_ipv4() == v4) {
                // What the interface is in itself stays on it.
                if !own.iter().any(|own| own.trunc() == *subnet) {
                    self.inside.append_route(end.index, &through(*subnet, RouteSpec::MAIN))?;
                }
            }
            let everything =
                IpNet::new(unspecified(v4), 0).map_err(|_| Error::Unexpected { wanted: "a prefix" })?;
            self.inside.append_route(end.index, &through(everything, BACK))?;
            // Marks are looked at once there is a way at all, and a fabric has as a rule no gateway.
            let last = RouteSpec { priority: Some(LAST), ..through(everything, RouteSpec::MAIN) };
            self.inside.append_route(end.index, &last)?;
            self.inside.add_rule(&Rule { mark: Some((MARK, u32::MAX)), ..Rule::all(!v4, BACK) })?;
        }
        Ok(())
    }

    /// On the node: the pod's addresses, in a table of their own.
    fn lead_here(&mut self, step: &CoordinatorStep, own: &[IpNet]) -> Result<(), Error> {
        let mut here = Route::here()?;
        let node_end = ipoib::find(&mut here, &host_end(self.container), "the host")?;
        let end = ipoib::find(self.inside, POD_END, "the sandbox")?;
        let node = node_addresses(&mut here)?;
        let lock = Lock::take_stem(self.machine.root, "coordinator", self.machine.patience.lock)?;
        let stale = here.all_routes()?;
        for address in own {
            let to = IpNet::from(address.addr());
            let before = stale
                .iter()
                .filter(|entry| entry.route.table == Some(step.table) && entry.route.destination == to);
            for (index, route) in before.filter_map(|entry| Some((entry.interface?, entry.route))) {
                here.remove_route(index, &route)?;
            }
            here.set_neighbour(node_end.index, address.addr(), &end.address)?;
            let source = node.iter().copied().find(|node| node.is_ipv4() == address.addr().is_ipv4());
            let route = RouteSpec { table: Some(step.table), source, ..RouteSpec::to(to, None) };
            here.append_route(node_end.index, &route)?;
            let rule = Rule { priority: Some(PRIORITY), ..Rule::all(address.addr().is_ipv6(), step.table) };
            here.add_rule(&rule)?;
        }
        lock.retire();
        Ok(())
    }
}

/// The node's own addresses: those of the interfaces that its default routes go through first.
fn node_addresses(here: &mut Route) -> Result<Vec<IpAddr>, Error> {
    let routes = here.all_routes()?;
    let outward = |index: u32| {
        routes
            .iter()
            .any(|entry| entry.is_main_unicast() && entry.is_default() && entry.interface == Some(index))
    };
    let mut found = Vec::new();
    for link in here.links()? {
        // Wires of pods have addresses of all kinds of meaning; what carries the node's own is as a rule not one.
        let of_pod = link.kind.as_deref() == Some("veth") && !outward(link.index);
        if link.name == "lo" || of_pod || !link.up {
            continue;
        }
        for address in global(here.addresses(link.index)?) {
            found.push((!outward(link.index), link.index, address.addr()));
        }
    }
    found.sort_by_key(|(inward, index, _)| (*inward, *index));
    Ok(found.into_iter().map(|(_, _, address)| address).collect())
}

/// Without those that are good on one link only.
pub(super) fn global(addresses: Vec<IpNet>) -> Vec<IpNet> {
    let is_global = |address: &IpNet| match address.addr() {
        IpAddr::V4(v4) => !v4.is_link_local() && !v4.is_loopback(),
        IpAddr::V6(v6) => !v6.is_unicast_link_local() && !v6.is_loopback(),
    };
    addresses.into_iter().filter(is_global).collect()
}

fn of_family(own: &[IpNet], like: IpAddr) -> Option<IpAddr> {
    own.iter().map(IpNet::addr).find(|own| own.is_ipv4() == like.is_ipv4())
}

fn unspecified(v4: bool) -> IpAddr {
    if v4 { std::net::Ipv4Addr::UNSPECIFIED.into() } else { std::net::Ipv6Addr::UNSPECIFIED.into() }
}
