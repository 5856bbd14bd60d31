//! The `ipoib` plugin: IPoIB child interfaces for pods.
//!
//! ```text
//! host:  parent ── child "veth…" (created, down) ──┐ moved
//! pod:                                             └▶ found by name, renamed to net1, MTU, up
//! ```

use crate::protocol::result::ResultInterface;
use crate::protocol::{CniContext, CniResult, Error, FailPoint};
use crate::state::journal::InterfaceIdentity;
use ferroband_config::{InterfaceConfig, IpoibConfig};
use ferroband_kernel::{IpoibChild, Link, Netns, RouteSocket};
use serde_json::{Map, Value};
use std::fs;

/// Fail if the parent does not exist or is not IPoIB, or if IPAM is `dhcp`. Nothing is created yet.
pub(crate) fn preflight(
    context: &CniContext<'_>,
    child: &IpoibConfig,
    config: &Map<String, Value>,
) -> Result<(), Error> {
    context.host.ipoib_parent(&child.parent)?;
    Ok(InterfaceConfig::parse(config)?.refuse_dhcp()?)
}

/// Temporary name of a child until it is in the pod, derived from the file stem of the attachment ID and the
/// position of the attachment.
///
/// It is deterministic, so that it can be found without a journal. As in upstream it starts with `veth`, which
/// NetworkManager ignores.
pub(crate) fn temporary_name(stem: &str, position: usize) -> String {
    format!("{}{:02x}", temporary_prefix(stem), position & 0xff)
}

/// Prefix of the temporary interface names of one sandbox.
pub(crate) fn temporary_prefix(stem: &str) -> String {
    format!("veth{:09x}", ferroband_model::fnv1a(stem.bytes()) >> 28)
}

/// Create a child in the host namespace and return its identity.
pub(crate) fn create(
    context: &CniContext<'_>,
    child: &IpoibConfig,
    temporary: &str,
) -> Result<InterfaceIdentity, Error> {
    let parent = context.host.ipoib_parent(&child.parent)?;
    // The child has the parent's mode (datagram or connected) and, unless one is requested, the parent's
    // P_Key. A child with a requested P_Key has no carrier until the port has that key.
    let new = IpoibChild { parent: parent.index, pkey: child.pkey.unwrap_or(parent.pkey), mode: parent.mode };
    context.host.create_ipoib_child(temporary, &new)?;
    (context.fail_point)(FailPoint::InterfaceCreated);
    let link = find_link(&mut RouteSocket::open()?, temporary, "the host")?;
    Ok(InterfaceIdentity {
        temporary: temporary.to_owned(),
        kind: link.kind.clone(),
        addresses: vec![format_address(&link.address)],
    })
}

/// Move a child into the sandbox and configure it there under its final name.
pub(crate) fn move_to_pod(
    context: &CniContext<'_>,
    netns: &Netns,
    pod_netlink: &mut RouteSocket,
    child: &IpoibConfig,
    temporary: &str,
    ifname: &str,
) -> Result<Link, Error> {
    let mut host_netlink = RouteSocket::open()?;
    let index = find_link(&mut host_netlink, temporary, "the host")?.index;
    host_netlink.move_link(index, netns)?;
    (context.fail_point)(FailPoint::InterfaceMoved);

    // Find the child by name. The kernel changes its index if another interface in the sandbox has the same
    // one (`__dev_change_net_namespace` in net/core/dev.c).
    let index = find_link(pod_netlink, temporary, "the sandbox")?.index;
    // Enable proxy ARP, as upstream does. The path must contain the interface's current name.
    write_sysctl(context, netns, &format!("net/ipv4/conf/{temporary}/proxy_arp"), "1")?;
    pod_netlink.set_down(index)?;
    pod_netlink.rename_link(index, ifname)?;
    (context.fail_point)(FailPoint::InterfaceRenamed);
    if let Some(mtu) = child.mtu {
        pod_netlink.set_mtu(index, mtu)?;
    }
    pod_netlink.set_up(index)?;
    let link = find_link(pod_netlink, ifname, "the sandbox")?;
    warn_mtu(&link, child.mtu);
    Ok(link)
}

/// Warn if the kernel chose another MTU: datagram mode accepts any MTU up to that of the port, but uses that
/// of the multicast group.
pub(crate) fn warn_mtu(link: &Link, requested: Option<u32>) {
    match requested {
        Some(requested) if requested != link.mtu => {
            eprintln!(
                "ferroband: the kernel limited the MTU of interface {} to {}; {requested} was requested",
                link.name, link.mtu
            );
        }
        _ => {}
    }
}

/// Build the result for an interface: its name, hardware address and MTU, and the DNS settings of the
/// configuration.
pub(crate) fn build_result(
    link: &Link,
    sandbox: &str,
    config: &Map<String, Value>,
) -> Result<CniResult, Error> {
    let interface = ResultInterface {
        name: link.name.clone(),
        mac: format_address(&link.address),
        mtu: Some(link.mtu),
        sandbox: sandbox.to_owned(),
        ..ResultInterface::default()
    };
    let dns = InterfaceConfig::parse(config)?.dns()?;
    Ok(CniResult { interfaces: vec![interface], dns, ..CniResult::default() })
}

/// Delete an interface in the host or in the sandbox, under its temporary or final name.
pub(crate) fn remove(
    context: &CniContext<'_>,
    netns: Option<&Netns>,
    identity: &InterfaceIdentity,
    ifname: &str,
) -> Result<(), Error> {
    // The pod may change the interface's name or its address, so an interface of the recorded kind is deleted
    // if either matches. The match by name is safe, because the name was free at the start of the ADD.
    // Without a recorded kind, the interface still has its temporary name.
    let same =
        |link: &Link| !link.address.is_empty() && identity.addresses.contains(&format_address(&link.address));
    let kind = |link: &Link| identity.kind.is_some() && link.kind == identity.kind;
    if let Some(netns) = netns {
        let is_match = |link: &Link| kind(link) && (link.name == ifname || same(link));
        delete_links(&mut RouteSocket::open_in(netns)?, |link| {
            link.name == identity.temporary || is_match(link)
        })?;
    }
    let mut host_netlink = RouteSocket::open()?;
    if let Some(link) = host_netlink.link(&identity.temporary)? {
        host_netlink.delete_link(link.index)?;
    }
    if netns.is_none() {
        // A deleted namespace returns its IPoIB interfaces to the host, under their name or as `dev<index>` if the
        // name is taken (`default_device_exit_net` in net/core/dev.c).
        let named = |link: &Link| link.name == ifname || link.name.starts_with("dev");
        delete_links(&mut host_netlink, |link| kind(link) && same(link) && named(link))?;
    }
    (context.fail_point)(FailPoint::StepUndone);
    Ok(())
}

/// Delete every interface in the namespace of `route` for which `is_match` returns true.
pub(crate) fn delete_links(route: &mut RouteSocket, is_match: impl Fn(&Link) -> bool) -> Result<(), Error> {
    for link in route.links()?.iter().filter(|link| is_match(link)) {
        route.delete_link(link.index)?;
    }
    Ok(())
}

/// Write `value` to the file `setting` under /proc/sys, in the sandbox's network namespace.
pub(crate) fn write_sysctl(
    context: &CniContext<'_>,
    netns: &Netns,
    setting: &str,
    value: &str,
) -> Result<(), Error> {
    let path = context.root.proc_("sys").join(setting);
    // /proc/sys/net shows the network namespace of the calling thread.
    let written = netns.run(|| fs::write(&path, value))?;
    written.map_err(|source| Error::Sysctl { path, source })
}

/// Format a hardware address as hexadecimal bytes, separated by colons.
pub(crate) fn format_address(address: &[u8]) -> String {
    address.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

/// The interface whose name is `name`. One that has it only as an altname does not count.
pub(crate) fn find_link(route: &mut RouteSocket, name: &str, place: &str) -> Result<Link, Error> {
    let link = route.link(name)?.filter(|link| link.name == name);
    link.ok_or_else(|| Error::NoInterface { ifname: name.to_owned(), place: place.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_names_are_valid_unique_and_stable() {
        let names = [
            temporary_name("c1", 0),
            temporary_name("c1", 255),
            temporary_name("c2", 0),
            temporary_name("c1", 256),
        ];
        for name in &names {
            assert!(name.len() == 15 && name.starts_with("veth"), "{name}");
        }
        assert!(
            names[0].starts_with(&temporary_prefix("c1")) && !names[2].starts_with(&temporary_prefix("c1"))
        );
        assert_eq!(names[0], temporary_name("c1", 0));
    }
}
