//! Configuring addresses and routes on existing interfaces.

use crate::protocol::result::ResultRoute;
use crate::protocol::{CniContext, CniResult, Error, FailPoint};
use crate::steps::ipoib::{find_link, write_sysctl};
use ferroband_kernel::rtnetlink::RouteSpec;
use ferroband_kernel::{Netns, RouteSocket};
use std::fs;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Polling interval for duplicate address detection.
const PAUSE: Duration = Duration::from_millis(20);
/// Address flags from linux/if_addr.h, as shown in /proc/net/if_inet6.
const IFA_F_DADFAILED: u32 = 0x08;
const IFA_F_TENTATIVE: u32 = 0x40;

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
pub(crate) fn gateway_for(result: &CniResult, destination: IpAddr) -> Option<IpAddr> {
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
mod tests {
    use super::*;
    use crate::protocol::result::ResultIp;

    #[test]
    fn if_inet6_lines_are_parsed() {
        let line = "fd000000000000000000000000000005 0b 40 00 c8     net1";
        assert_eq!(parse_if_inet6(line), Some(("net1", "fd00::5".parse().unwrap(), 0xc8)));
        assert_eq!(parse_if_inet6("nonsense"), None);
        assert_eq!(parse_if_inet6(""), None);
    }

    #[test]
    fn the_first_gateway_of_the_family_is_used() {
        let ip = |address: &str, gateway: Option<&str>| ResultIp {
            interface: Some(0),
            address: address.parse().unwrap(),
            gateway: gateway.map(|gateway| gateway.parse().unwrap()),
        };
        let result = CniResult {
            ips: vec![
                ip("10.0.0.2/24", None),
                ip("fd00::2/64", Some("fd00::1")),
                ip("10.1.0.2/24", Some("10.1.0.1")),
                ip("10.2.0.2/24", Some("10.2.0.1")),
            ],
            ..CniResult::default()
        };
        assert_eq!(gateway_for(&result, "0.0.0.0".parse().unwrap()), Some("10.1.0.1".parse().unwrap()));
        assert_eq!(gateway_for(&result, "::".parse().unwrap()), Some("fd00::1".parse().unwrap()));
        assert_eq!(gateway_for(&CniResult::default(), "::".parse().unwrap()), None);
    }
}
