//! Making the ways.

use super::{
    FALLBACK_METRIC, FIRST_TABLE, HOST_RULE_PRIORITY, POD_VETH, RETURN_MARK, RETURN_TABLE, host_veth_name,
    tables,
};
use crate::plan::{CoordinatorMode, CoordinatorStep};
use crate::{CniContext, Error, FailPoint, Lock, ipoib};
use ferroband_kernel::rtnetlink::{LinkKind, NewLink, RouteSpec, RoutingRule};
use ferroband_kernel::{Link, Netns, RouteSocket, netfilter};
use ipnet::IpNet;
use std::net::IpAddr;

/// What joining takes.
pub(crate) struct CoordinatorSetup<'a> {
    pub(crate) machine: &'a CniContext<'a>,
    pub(crate) netns: &'a Netns,
    pub(crate) inside: &'a mut RouteSocket,
    pub(crate) container: &'a str,
    /// The interface of the network that the step belongs to.
    pub(crate) ifname: &'a str,
}

impl CoordinatorSetup<'_> {
    /// Whether a wire to the node has to be made: then it must be in the journal first.
    pub(crate) fn needs_veth(&mut self, step: &CoordinatorStep) -> Result<bool, Error> {
        let wired = self.inside.link(POD_VETH)?.is_some();
        Ok(self.effective_mode(step, wired) == CoordinatorMode::Underlay && !wired)
    }

    /// Make the ways.
    pub(crate) fn run(&mut self, step: &CoordinatorStep) -> Result<(), Error> {
        let wired = self.inside.link(POD_VETH)?.is_some();
        let mode = self.effective_mode(step, wired);
        if mode == CoordinatorMode::Disabled {
            return Ok(());
        }
        let link = ipoib::find_link(self.inside, self.ifname, "the sandbox")?;
        let own: Vec<IpNet> = global_only(self.inside.addresses(link.index)?);
        if let Some(filter) = step.rp_filter {
            for interface in ["all", "default", self.ifname] {
                let setting = format!("net/ipv4/conf/{interface}/rp_filter");
                ipoib::write_sysctl(self.machine, self.netns, &setting, &filter.to_string())?;
            }
        }
        if let Some(packets) = step.tx_queue_len {
            self.inside.set_tx_queue_len(link.index, packets)?;
        }
        if mode == CoordinatorMode::Underlay && !wired {
            self.create_veth(step, &own)?;
        } else if mode == CoordinatorMode::Underlay {
            // The wire is there; the node must find this address through it as well.
            self.add_host_routes(step, &own)?;
        }
        if step.tune_routes {
            tables::tune_routes(self.inside, step, &link, &own, mode)?;
        }
        (self.machine.fail_point)(FailPoint::RoutesSet);
        Ok(())
    }

    fn effective_mode(&self, step: &CoordinatorStep, wired: bool) -> CoordinatorMode {
        match step.mode {
            CoordinatorMode::Auto if self.ifname == "eth0" || wired => CoordinatorMode::Underlay,
            CoordinatorMode::Auto => CoordinatorMode::Overlay,
            mode => mode,
        }
    }

    /// A wire between pod and node, and what goes through it.
    fn create_veth(&mut self, step: &CoordinatorStep, own: &[IpNet]) -> Result<(), Error> {
        let name = host_veth_name(self.container);
        let passing = format!("vetp{}", name.trim_start_matches("veth"));
        let mut here = RouteSocket::open()?;
        // Of a container whose identifier begins the same way and which is long gone.
        if let Some(old) = here.link(&name)?.filter(|link| link.kind.as_deref() == Some("veth")) {
            here.delete_link(old.index)?;
        }
        let kind = LinkKind::Veth { peer: &passing };
        here.create_link(&NewLink { mtu: Some(step.veth_mtu), up: true, ..NewLink::new(&name, kind) })?;
        (self.machine.fail_point)(FailPoint::InterfaceCreated);
        let end = ipoib::find_link(&mut here, &passing, "the host")?;
        here.move_link(end.index, self.netns)?;
        (self.machine.fail_point)(FailPoint::InterfaceMoved);
        let end = ipoib::find_link(self.inside, &passing, "the sandbox")?;
        self.inside.rename_link(end.index, POD_VETH)?;
        (self.machine.fail_point)(FailPoint::InterfaceRenamed);
        if let Some(filter) = step.rp_filter {
            let setting = format!("net/ipv4/conf/{POD_VETH}/rp_filter");
            ipoib::write_sysctl(self.machine, self.netns, &setting, &filter.to_string())?;
        }
        if let Some(address) = step.veth_address {
            self.inside.add_address(end.index, address.into())?;
        }
        self.inside.set_up(end.index)?;
        let node_end = ipoib::find_link(&mut here, &name, "the host")?;
        let node = node_addresses(&mut here)?;
        self.add_pod_routes(step, own, &end, &node_end, &node)?;
        // What the node or a pod of the cluster's own network begins is answered through the wire, whatever its address.
        // Without it those are reached whose subnets are known.
        netfilter::add_connmark_rules(self.netns, POD_VETH, RETURN_MARK)?;
        self.add_host_routes(step, own)
    }

    /// In the pod: the node's addresses, and through the first of them what the node knows the way to.
    fn add_pod_routes(
        &mut self,
        step: &CoordinatorStep,
        own: &[IpNet],
        end: &Link,
        node_end: &Link,
        node: &[IpAddr],
    ) -> Result<(), Error> {
        for address in node {
            let Some(source) = same_family(own, *address) else { continue };
            self.inside.set_neighbour(end.index, *address, &node_end.address)?;
            for table in [RouteSpec::MAIN_TABLE, FIRST_TABLE] {
                let to = RouteSpec {
                    table: Some(table),
                    source: Some(source),
                    ..RouteSpec::new((*address).into(), None)
                };
                self.inside.append_route(end.index, &to)?;
            }
        }
        for v4 in [true, false] {
            let gateway = node.iter().copied().find(|address| address.is_ipv4() == v4);
            let Some((gateway, source)) =
                gateway.and_then(|gateway| Some((gateway, same_family(own, gateway)?)))
            else {
                continue;
            };
            let through = |destination, table| RouteSpec {
                table: Some(table),
                source: Some(source),
                ..RouteSpec::new(destination, Some(gateway))
            };
            for subnet in step.subnets.iter().filter(|subnet| subnet.addr().is_ipv4() == v4) {
                // What the interface is in itself stays on it.
                if !own.iter().any(|own| own.trunc() == *subnet) {
                    self.inside.append_route(end.index, &through(*subnet, RouteSpec::MAIN_TABLE))?;
                }
            }
            let everything = IpNet::new(unspecified_address(v4), 0)
                .map_err(|_| Error::UnexpectedReply { wanted: "a prefix" })?;
            self.inside.append_route(end.index, &through(everything, RETURN_TABLE))?;
            // Marks are looked at once there is a way at all, and a fabric has as a rule no gateway.
            let last =
                RouteSpec { priority: Some(FALLBACK_METRIC), ..through(everything, RouteSpec::MAIN_TABLE) };
            self.inside.append_route(end.index, &last)?;
            self.inside.add_rule(&RoutingRule {
                mark: Some((RETURN_MARK, u32::MAX)),
                ..RoutingRule::for_family(!v4, RETURN_TABLE)
            })?;
        }
        Ok(())
    }

    /// On the node: the pod's addresses, in a table of their own.
    fn add_host_routes(&mut self, step: &CoordinatorStep, own: &[IpNet]) -> Result<(), Error> {
        let mut here = RouteSocket::open()?;
        let node_end = ipoib::find_link(&mut here, &host_veth_name(self.container), "the host")?;
        let end = ipoib::find_link(self.inside, POD_VETH, "the sandbox")?;
        let node = node_addresses(&mut here)?;
        let lock = Lock::acquire_stem(self.machine.root, "coordinator", self.machine.timeouts.lock)?;
        let stale = here.all_routes()?;
        for address in own {
            let to = IpNet::from(address.addr());
            let before = stale.iter().filter(|entry| {
                entry.route.table == Some(step.host_rule_table) && entry.route.destination == to
            });
            for (index, route) in before.filter_map(|entry| Some((entry.interface?, entry.route))) {
                here.remove_route(index, &route)?;
            }
            here.set_neighbour(node_end.index, address.addr(), &end.address)?;
            let source = node.iter().copied().find(|node| node.is_ipv4() == address.addr().is_ipv4());
            let route = RouteSpec { table: Some(step.host_rule_table), source, ..RouteSpec::new(to, None) };
            here.append_route(node_end.index, &route)?;
            let rule = RoutingRule {
                priority: Some(HOST_RULE_PRIORITY),
                ..RoutingRule::for_family(address.addr().is_ipv6(), step.host_rule_table)
            };
            here.add_rule(&rule)?;
        }
        lock.release_and_remove();
        Ok(())
    }
}

/// The node's own addresses: those of the interfaces that its default routes go through first.
fn node_addresses(here: &mut RouteSocket) -> Result<Vec<IpAddr>, Error> {
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
        for address in global_only(here.addresses(link.index)?) {
            found.push((!outward(link.index), link.index, address.addr()));
        }
    }
    found.sort_by_key(|(inward, index, _)| (*inward, *index));
    Ok(found.into_iter().map(|(_, _, address)| address).collect())
}

/// Without those that are good on one link only.
pub(super) fn global_only(addresses: Vec<IpNet>) -> Vec<IpNet> {
    let is_global = |address: &IpNet| match address.addr() {
        IpAddr::V4(v4) => !v4.is_link_local() && !v4.is_loopback(),
        IpAddr::V6(v6) => !v6.is_unicast_link_local() && !v6.is_loopback(),
    };
    addresses.into_iter().filter(is_global).collect()
}

fn same_family(own: &[IpNet], like: IpAddr) -> Option<IpAddr> {
    own.iter().map(IpNet::addr).find(|own| own.is_ipv4() == like.is_ipv4())
}

fn unspecified_address(v4: bool) -> IpAddr {
    if v4 { std::net::Ipv4Addr::UNSPECIFIED.into() } else { std::net::Ipv6Addr::UNSPECIFIED.into() }
}
