//! Getting the addresses of an attachment and configuring them, with their routes, on its interface.

use super::AddOperation;
use crate::ipc::message::{DaemonReply, DaemonRequest};
use crate::ipc::plan::{AssignedAddresses, StepKind};
use crate::protocol::result::{ResultIp, ResultRoute};
use crate::protocol::{CniContext, CniResult, CniVersion, Error, FailPoint, Invocation};
use crate::state::journal::{JournalEntry, StepState};
use crate::steps::delegate;
use crate::steps::ipoib::{find_link, write_sysctl};
use ferroband_kernel::rtnetlink::RouteSpec;
use ferroband_kernel::{Netns, RouteSocket};
use serde_json::{Map, Value};
use std::fs;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Polling interval for duplicate address detection.
const PAUSE: Duration = Duration::from_millis(20);
/// Address flags from linux/if_addr.h, as shown in /proc/net/if_inet6.
const IFA_F_DADFAILED: u32 = 0x08;
const IFA_F_TENTATIVE: u32 = 0x40;

impl AddOperation<'_> {
    /// Get addresses from the step's foreign IPAM plugin, if it has one, and configure them.
    pub(super) fn delegate_ipam(&mut self, position: usize, step: usize) -> Result<(), Error> {
        let planned = &self.entry(position).attachment.steps[step];
        let Some(plugin) = planned.interface()?.ipam_plugin.map(str::to_owned) else {
            return Ok(());
        };
        delegate::find_plugin(&plugin, &self.call.path)?;
        self.journal.entries[position].steps[step].ipam = StepState::Intended;
        self.save()?;
        let entry = self.entry(position);
        let stdin = ipam_stdin(entry, step, self.journal.plugin_type.is_meta(), Some(self.call));
        let result = delegate::add(&plugin, &self.plugin_env(position), &stdin)?;
        (self.context.fail_point)(FailPoint::PluginExecuted);
        let ipam = CniResult::read(&result, entry.attachment.version()?)?;
        self.journal.entries[position].steps[step].ipam = StepState::Done;
        if ipam.ips.is_empty() {
            return Err(Error::NoAddress { plugin, ifname: self.entry(position).attachment.ifname.clone() });
        }
        self.merge_ipam_result(position, ipam)?;
        self.configure_interfaces(&[position])
    }

    /// Request the addresses of the attachments at `positions` from the daemon and configure them.
    pub(super) fn configure_assigned(&mut self, positions: &[usize]) -> Result<(), Error> {
        if positions.is_empty() {
            return Ok(());
        }
        self.request_addresses()?;
        for &position in positions {
            let ipam = self.assigned_result(position)?;
            self.merge_ipam_result(position, ipam)?;
        }
        self.configure_interfaces(positions)
    }

    /// Request the assigned addresses from the daemon, unless they are already known.
    fn request_addresses(&mut self) -> Result<(), Error> {
        if !self.journal.assigned.is_empty() {
            return Ok(());
        }
        let unreached = Error::UnexpectedReply { expected: "a plan before the addresses request" };
        let daemon = self.daemon.as_mut().ok_or(unreached)?;
        match daemon.request(self.context, &DaemonRequest::Addresses)? {
            DaemonReply::Addresses(assigned) => self.journal.assigned = assigned,
            _ => return Err(Error::UnexpectedReply { expected: "addresses" }),
        }
        Ok(())
    }

    /// The addresses assigned to the attachment at `position`, as a CNI result. Fails if the daemon assigned
    /// none.
    pub(crate) fn assigned_result(&self, position: usize) -> Result<CniResult, Error> {
        let attachment = &self.entry(position).attachment;
        let assigned = self.journal.assigned.iter().find(|assigned| assigned.attachment == position);
        match assigned.filter(|assigned| !assigned.ips.is_empty()) {
            Some(assigned) => Ok(result_from_assigned(assigned)),
            None => Err(Error::NoAddress {
                plugin: "ferroband (node daemon)".to_owned(),
                ifname: attachment.ifname.clone(),
            }
            .on_network(&attachment.network)),
        }
    }

    /// Merge the IPAM result into an attachment's result. The DNS settings of the configuration are kept,
    /// except for `ib-sriov`.
    fn merge_ipam_result(&mut self, position: usize, ipam: CniResult) -> Result<(), Error> {
        let entry = &mut self.journal.entries[position];
        let mut result = entry.cni_result()?;
        result.ips = ipam.ips.into_iter().map(|ip| ResultIp { interface: Some(0), ..ip }).collect();
        result.routes = ipam.routes;
        // Unlike upstream's ipoib, upstream's ib-sriov returns the DNS settings of IPAM.
        if entry.attachment.steps.iter().any(|step| matches!(step.kind, StepKind::IbSriov { .. })) {
            result.dns = ipam.dns;
        }
        entry.result = Some(result.write(CniVersion::NEWEST)?);
        Ok(())
    }

    fn configure_interfaces(&mut self, positions: &[usize]) -> Result<(), Error> {
        let results = positions.iter().map(|&position| self.entry(position).cni_result());
        let results: Vec<_> = results.collect::<Result<_, _>>()?;
        let names =
            positions.iter().map(|&position| self.journal.entries[position].attachment.ifname.as_str());
        let interfaces: Vec<_> = names.zip(&results).collect();
        configure(self.context, &self.netns, &mut self.pod_netlink, &interfaces)
    }
}

/// Build standard input for a delegated IPAM plugin. A plugin called on its own forwards the bytes of its own
/// standard input.
pub(crate) fn ipam_stdin(
    entry: &JournalEntry,
    step: usize,
    meta: bool,
    call: Option<&Invocation>,
) -> Vec<u8> {
    match call {
        Some(call) if !meta => call.config.bytes().to_vec(),
        _ => entry.attachment.stdin(&entry.attachment.steps[step], None),
    }
}

fn result_from_assigned(assigned: &AssignedAddresses) -> CniResult {
    let ips = assigned.ips.iter();
    let routes = assigned.routes.iter();
    let dns = assigned.dns.as_ref().and_then(Value::as_object);
    CniResult {
        interfaces: Vec::new(),
        ips: ips.map(|ip| ResultIp { interface: None, address: ip.address, gateway: ip.gateway }).collect(),
        routes: routes.map(|route| ResultRoute { dst: route.dst, gw: route.gw, more: Map::new() }).collect(),
        dns: dns.cloned().unwrap_or_default(),
    }
}

/// Configure each interface according to its result. Duplicate address detection runs for all of them at once.
///
/// The order is that of the upstream plugins: IPv6 sysctls, addresses, link up, duplicate address detection,
/// routes.
pub(crate) fn configure(
    context: &CniContext<'_>,
    netns: &Netns,
    pod_netlink: &mut RouteSocket,
    interfaces: &[(&str, &CniResult)],
) -> Result<(), Error> {
    for (ifname, result) in interfaces {
        // Reject invalid routes before changing this interface.
        result.routes.iter().try_for_each(|route| route_spec(result, route).map(drop))?;
        let index = find_link(pod_netlink, ifname, "the sandbox")?.index;
        if result.ips.iter().any(|ip| ip.address.addr().is_ipv6()) {
            enable_ipv6(context, netns, ifname)?;
        }
        for ip in &result.ips {
            pod_netlink.add_address(index, ip.address)?;
        }
        pod_netlink.set_up(index)?;
    }
    wait_for_dad(context, netns, interfaces)?;
    for (ifname, result) in interfaces {
        let index = find_link(pod_netlink, ifname, "the sandbox")?.index;
        for route in &result.routes {
            pod_netlink.append_route(index, &route_spec(result, route)?)?;
        }
    }
    (context.fail_point)(FailPoint::AddressesSet);
    Ok(())
}

/// The first gateway in `result` that has the address family of `destination`.
fn gateway_for(result: &CniResult, destination: IpAddr) -> Option<IpAddr> {
    let of_family = |gateway: &IpAddr| gateway.is_ipv4() == destination.is_ipv4();
    result.ips.iter().filter_map(|ip| ip.gateway).find(of_family)
}

/// Convert a route of a CNI result, including its CNI 1.1.0 attributes, to a netlink route. Unknown
/// attributes are dropped, as in libcni.
pub(crate) fn route_spec(result: &CniResult, route: &ResultRoute) -> Result<RouteSpec, Error> {
    let number = |key: &str| -> Result<Option<u32>, Error> {
        let wrong = || Error::RouteAttribute { dst: route.dst, attribute: key.to_owned() };
        let value = route.more.get(key).filter(|value| !value.is_null());
        let number = value.map(|value| value.as_u64().and_then(|value| u32::try_from(value).ok()));
        number.map(|number| number.ok_or_else(wrong)).transpose()
    };
    let some = |number: Option<u32>| number.filter(|number| *number != 0);
    let gateway = route.gw.or_else(|| gateway_for(result, route.dst.addr()));
    let scope = number("scope")?.map(u8::try_from).transpose();
    let scope = scope.map_err(|_| Error::RouteAttribute { dst: route.dst, attribute: "scope".to_owned() })?;
    Ok(RouteSpec {
        priority: some(number("priority")?),
        table: some(number("table")?),
        scope,
        mtu: some(number("mtu")?),
        advmss: some(number("advmss")?),
        ..RouteSpec::new(route.dst, gateway)
    })
}

fn enable_ipv6(context: &CniContext<'_>, netns: &Netns, ifname: &str) -> Result<(), Error> {
    for interface in ["lo", ifname] {
        let setting = format!("net/ipv6/conf/{interface}/disable_ipv6");
        let path = context.root.proc_("sys").join(&setting);
        let off = netns.run(|| fs::read_to_string(&path))?;
        if off.is_ok_and(|value| value.trim() != "0") {
            write_sysctl(context, netns, &setting, "0")?;
        }
    }
    write_sysctl(context, netns, &format!("net/ipv6/conf/{ifname}/keep_addr_on_down"), "1")
}

/// Wait for IPv6 duplicate address detection on interfaces with an IPv6 gateway.
///
/// A timeout is not an error: without a carrier the detection never ends, and an InfiniBand port may get its carrier
/// only after the pod has started.
fn wait_for_dad(
    context: &CniContext<'_>,
    netns: &Netns,
    interfaces: &[(&str, &CniResult)],
) -> Result<(), Error> {
    let routed = interfaces
        .iter()
        .filter(|(_, result)| result.ips.iter().filter_map(|ip| ip.gateway).any(|gateway| gateway.is_ipv6()));
    let awaited: Vec<_> = routed
        .flat_map(|(ifname, result)| result.ips.iter().map(move |ip| (*ifname, ip.address.addr())))
        .filter(|(_, address)| address.is_ipv6())
        .collect();
    let end = Instant::now() + context.timeouts.ipv6_dad;
    let path = context.root.proc_("thread-self/net/if_inet6");
    while !awaited.is_empty() {
        let read = netns.run(|| fs::read_to_string(&path))?;
        let table = read.map_err(|source| Error::File { path: path.clone(), doing: "read", source })?;
        let mut tentative = 0;
        for (ifname, address, flags) in table.lines().filter_map(parse_if_inet6) {
            if !awaited.contains(&(ifname, address)) {
                continue;
            }
            if flags & IFA_F_DADFAILED != 0 {
                return Err(Error::DuplicateAddress { ifname: ifname.to_owned(), address });
            }
            tentative += usize::from(flags & IFA_F_TENTATIVE != 0);
        }
        if tentative == 0 {
            break;
        }
        if Instant::now() >= end {
            eprintln!(
                "ferroband: duplicate address detection of {tentative} IPv6 addresses is still running"
            );
            break;
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Parse a line of /proc/net/if_inet6: address, interface index, prefix length, scope, flags, interface name.
fn parse_if_inet6(line: &str) -> Option<(&str, IpAddr, u32)> {
    let words: Vec<_> = line.split_whitespace().collect();
    let [address, _, _, _, flags, ifname] = words.as_slice() else { return None };
    let address = Ipv6Addr::from(u128::from_str_radix(address, 16).ok()?);
    Some((ifname, address.into(), u32::from_str_radix(flags, 16).ok()?))
}

#[cfg(test)]
mod tests;
