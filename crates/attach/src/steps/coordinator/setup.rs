//! Setting up routes between pod and node.

use super::host_routes::HostRoutes;
use super::{
    FALLBACK_METRIC, FIRST_TABLE, POD_VETH, RETURN_MARK, RETURN_TABLE, host_routes, host_veth_name,
    routing_tables,
};
use crate::protocol::{CniContext, Error, FailPoint};
use crate::state::Lock;
use crate::steps::ipoib;
use ferroband_config::{CoordinatorConfig, CoordinatorMode};
use ferroband_kernel::rtnetlink::{LinkKind, NewLink, RouteSpec, RoutingRule};
use ferroband_kernel::{Link, Netns, RouteSocket, netfilter};
use ipnet::IpNet;
use std::net::IpAddr;

/// Applies one coordinator step: sysctls, the veth pair if one is needed, routes and rules.
pub(crate) struct CoordinatorSetup<'a> {
    pub(crate) context: &'a CniContext<'a>,
    pub(crate) netns: &'a Netns,
    pub(crate) pod_netlink: &'a mut RouteSocket,
    pub(crate) container: &'a str,
    /// Interface of the network that the step belongs to.
    pub(crate) ifname: &'a str,
    /// Addresses in the network's result. The node gets routes to no other address.
    pub(crate) assigned: &'a [IpAddr],
    /// Whether an administrator chose the subnets of these addresses: they come from SpiderIPPools.
    pub(crate) from_pools: bool,
}

impl CoordinatorSetup<'_> {
    /// Whether a veth pair has to be created. If so, the caller must record it in the journal before
    /// [`Self::run`].
    pub(crate) fn needs_veth(&mut self, step: &CoordinatorConfig) -> Result<bool, Error> {
        let has_veth = self.pod_netlink.link(POD_VETH)?.is_some();
        Ok(self.effective_mode(step, has_veth) == CoordinatorMode::Underlay && !has_veth)
    }

    /// Apply the step. In mode `Disabled` nothing is changed.
    pub(crate) fn run(&mut self, step: &CoordinatorConfig) -> Result<(), Error> {
        let has_veth = self.pod_netlink.link(POD_VETH)?.is_some();
        let mode = self.effective_mode(step, has_veth);
        if mode == CoordinatorMode::Disabled {
            return Ok(());
        }
        if mode == CoordinatorMode::Underlay {
            host_routes::check_table(&mut RouteSocket::open()?, step.host_rule_table)?;
        }
        let link = ipoib::find_link(self.pod_netlink, self.ifname, "the sandbox")?;
        let own: Vec<IpNet> = global_only(self.pod_netlink.addresses(link.index)?);
        self.set_mac(step, &link, &own)?;
        if let Some(filter) = step.rp_filter {
            for interface in ["all", "default", self.ifname] {
                let sysctl = format!("net/ipv4/conf/{interface}/rp_filter");
                ipoib::write_sysctl(self.context, self.netns, &sysctl, &filter.to_string())?;
            }
        }
        if let Some(packets) = step.tx_queue_len {
            self.pod_netlink.set_tx_queue_len(link.index, packets)?;
        }
        if mode == CoordinatorMode::Underlay && !has_veth {
            self.create_veth(step, &own)?;
        } else if mode == CoordinatorMode::Underlay {
            // An earlier step created the veth pair. The node must route this interface's addresses through
            // it as well.
            self.add_host_routes(step, &own)?;
        }
        if step.tune_routes {
            routing_tables::tune_routes(self.pod_netlink, step, &link, &own, mode)?;
        }
        (self.context.fail_point)(FailPoint::RoutesSet);
        Ok(())
    }

    /// Set the MAC address of an Ethernet interface to the prefix of the configuration and the last four bytes of the
    /// interface's IP address, as Spiderpool does. The address of an InfiniBand interface depends on its port, and
    /// interfaces of type ipvlan have the address of their parent.
    fn set_mac(&mut self, step: &CoordinatorConfig, link: &Link, own: &[IpNet]) -> Result<(), Error> {
        let is_ethernet = link.address.len() == 6 && link.kind.as_deref() != Some("ipvlan");
        let address = own.iter().find(|own| own.addr().is_ipv4()).or(own.first());
        match (step.mac_prefix, address) {
            (Some(prefix), Some(address)) if is_ethernet => {
                let mac = prefix.address_for(address.addr());
                Ok(self.pod_netlink.set_hardware_address(link.index, &mac)?)
            }
            _ => Ok(()),
        }
    }

    fn effective_mode(&self, step: &CoordinatorConfig, has_veth: bool) -> CoordinatorMode {
        match step.mode {
            CoordinatorMode::Auto if self.ifname == "eth0" || has_veth => CoordinatorMode::Underlay,
            CoordinatorMode::Auto => CoordinatorMode::Overlay,
            mode => mode,
        }
    }

    /// Create the veth pair between pod and node, and the routes through it.
    fn create_veth(&mut self, step: &CoordinatorConfig, own: &[IpNet]) -> Result<(), Error> {
        let name = host_veth_name(self.container);
        let temporary = format!("vetp{}", name.trim_start_matches("veth"));
        let mut host_netlink = RouteSocket::open()?;
        // Delete a veth pair that was left over from a deleted container whose ID has the same prefix.
        if let Some(old) = host_netlink.link(&name)?.filter(|link| link.kind.as_deref() == Some("veth")) {
            host_netlink.delete_link(old.index)?;
        }
        let kind = LinkKind::Veth { peer: &temporary };
        host_netlink.create_link(&NewLink {
            mtu: Some(step.veth_mtu),
            up: true,
            ..NewLink::new(&name, kind)
        })?;
        (self.context.fail_point)(FailPoint::InterfaceCreated);
        let pod_veth = ipoib::find_link(&mut host_netlink, &temporary, "the host")?;
        host_netlink.move_link(pod_veth.index, self.netns)?;
        (self.context.fail_point)(FailPoint::InterfaceMoved);
        let pod_veth = ipoib::find_link(self.pod_netlink, &temporary, "the sandbox")?;
        self.pod_netlink.rename_link(pod_veth.index, POD_VETH)?;
        (self.context.fail_point)(FailPoint::InterfaceRenamed);
        if let Some(filter) = step.rp_filter {
            let sysctl = format!("net/ipv4/conf/{POD_VETH}/rp_filter");
            ipoib::write_sysctl(self.context, self.netns, &sysctl, &filter.to_string())?;
        }
        if let Some(address) = step.veth_address {
            self.pod_netlink.add_address(pod_veth.index, address.into())?;
        }
        self.pod_netlink.set_up(pod_veth.index)?;
        let host_veth = ipoib::find_link(&mut host_netlink, &name, "the host")?;
        let node = host_routes::node_addresses(&mut host_netlink)?;
        self.add_pod_routes(step, own, &pod_veth, &host_veth, &node)?;
        // Connections from the node or from pods of the cluster network are answered through the veth, whatever their
        // source. Without this, only sources in the configured subnets would be reached.
        netfilter::add_connmark_rules(self.netns, POD_VETH, RETURN_MARK)?;
        self.add_host_routes(step, own)
    }

    /// Add the pod's routes: to each of the node's addresses, and to the configured subnets through the
    /// node's first address of each family.
    fn add_pod_routes(
        &mut self,
        step: &CoordinatorConfig,
        own: &[IpNet],
        pod_veth: &Link,
        host_veth: &Link,
        node: &[IpAddr],
    ) -> Result<(), Error> {
        for address in node {
            let Some(source) = same_family(own, *address) else { continue };
            self.pod_netlink.set_neighbour(pod_veth.index, *address, &host_veth.address)?;
            for table in [RouteSpec::MAIN_TABLE, FIRST_TABLE] {
                let to = RouteSpec {
                    table: Some(table),
                    source: Some(source),
                    ..RouteSpec::new((*address).into(), None)
                };
                self.pod_netlink.append_route(pod_veth.index, &to)?;
            }
        }
        for v4 in [true, false] {
            let gateway = node.iter().copied().find(|address| address.is_ipv4() == v4);
            let Some((gateway, source)) =
                gateway.and_then(|gateway| Some((gateway, same_family(own, gateway)?)))
            else {
                continue;
            };
            let via_node = |destination, table| RouteSpec {
                table: Some(table),
                source: Some(source),
                ..RouteSpec::new(destination, Some(gateway))
            };
            for subnet in step.subnets.iter().filter(|subnet| subnet.addr().is_ipv4() == v4) {
                // Do not route the interface's own subnet through the node.
                if !own.iter().any(|own| own.trunc() == *subnet) {
                    self.pod_netlink
                        .append_route(pod_veth.index, &via_node(*subnet, RouteSpec::MAIN_TABLE))?;
                }
            }
            let default = IpNet::new(unspecified_address(v4), 0)
                .map_err(|_| Error::UnexpectedReply { expected: "a valid prefix" })?;
            self.pod_netlink.append_route(pod_veth.index, &via_node(default, RETURN_TABLE))?;
            // The kernel uses the table that the mark selects only for packets that also have a route in the
            // main table. A fabric usually has no gateway, so add a default route of low priority to the main
            // table.
            let fallback =
                RouteSpec { priority: Some(FALLBACK_METRIC), ..via_node(default, RouteSpec::MAIN_TABLE) };
            self.pod_netlink.append_route(pod_veth.index, &fallback)?;
            self.pod_netlink.add_rule(&RoutingRule {
                mark: Some((RETURN_MARK, u32::MAX)),
                ..RoutingRule::for_family(!v4, RETURN_TABLE)
            })?;
        }
        Ok(())
    }

    /// Add the node's routes to those of the pod's addresses that its network assigned.
    fn add_host_routes(&mut self, step: &CoordinatorConfig, own: &[IpNet]) -> Result<(), Error> {
        let pod_veth = ipoib::find_link(self.pod_netlink, POD_VETH, "the sandbox")?;
        let own = own.iter().map(IpNet::addr).filter(|address| self.assigned.contains(address));
        let lock = Lock::acquire_stem(self.context.root, "coordinator", self.context.timeouts.lock)?;
        let routes = HostRoutes {
            step,
            veth: &host_veth_name(self.container),
            pod_veth: &pod_veth,
            ifname: self.ifname,
            from_pools: self.from_pools,
        };
        routes.add(&own.collect::<Vec<_>>())?;
        lock.release_and_remove();
        Ok(())
    }
}

/// Drop link-local and loopback addresses.
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
