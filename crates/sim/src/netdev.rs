//! Network interfaces of simulated ports.

use crate::sysfs_tree::{ETHERNET_MTU, IPOIB_MTU};
use crate::{Error, NetdevProfile};
use ferroband_kernel::rtnetlink::{Link, LinkKind, NewLink, RouteSocket};
use ferroband_kernel::tap;
use ferroband_model::{LinkLayer, PciAddress};

/// ARPHRD_ETHER of linux/if_arp.h.
const ETHERNET: u16 = 1;

/// The alias of every interface of a function. It replaces the parent device that the kernel reports for real
/// interfaces.
pub(crate) fn alias_for(function: PciAddress) -> String {
    format!("ferroband {function}")
}

/// Returns the function in an alias from [`alias_for`]; `None` for any other alias.
pub(crate) fn function_from_alias(alias: &str) -> Option<PciAddress> {
    alias.strip_prefix("ferroband ")?.parse().ok()
}

/// Creates the interface in the network namespace of the calling thread if necessary, and sets it up with all
/// its names.
///
/// A tap can have link type InfiniBand, but the kernel gives it no hardware address, so only the simulated
/// sysfs contains the 20-byte IPoIB address. If the kernel does not support tun, a bridge without ports is
/// used instead of a tap.
pub(crate) fn ensure(
    route: &mut RouteSocket,
    netdev: &NetdevProfile,
    layer: LinkLayer,
    function: PciAddress,
) -> Result<(), Error> {
    let (link_type, mtu) = match layer {
        LinkLayer::InfiniBand => (Link::ARPHRD_INFINIBAND, IPOIB_MTU),
        LinkLayer::Ethernet => (ETHERNET, ETHERNET_MTU),
    };
    let link = match route.link(&netdev.name)? {
        Some(link) if link.name == netdev.name && is_stand_in(&link) => link,
        Some(link) => {
            return Err(Error::NameTaken { netdev: netdev.name.clone(), kind: link.kind_or_type() });
        }
        None => {
            if tap::create(&netdev.name, link_type).is_err() {
                route.create_link(&NewLink::new(&netdev.name, LinkKind::Bridge))?;
            }
            route
                .link(&netdev.name)?
                .ok_or_else(|| ferroband_kernel::Error::NoParent { interface: netdev.name.clone() })?
        }
    };
    // Set the alias first, because it identifies an Ethernet tap or a bridge as simulated.
    let alias = alias_for(function);
    if link.alias.as_ref() != Some(&alias) {
        route.set_alias(link.index, &alias)?;
    }
    if link.mtu != mtu {
        route.set_mtu(link.index, mtu)?;
    }
    for altname in netdev.altnames.iter().filter(|altname| !link.altnames.contains(altname)) {
        route.add_altname(link.index, altname)?;
    }
    if !link.up {
        route.set_up(link.index)?;
    }
    Ok(())
}

/// Removes the interface if it was created by [`ensure`].
pub(crate) fn remove(route: &mut RouteSocket, name: &str) -> Result<(), Error> {
    match route.link(name)? {
        Some(link) if link.name == name && is_stand_in(&link) => Ok(route.delete_link(link.index)?),
        _ => Ok(()),
    }
}

/// Whether [`ensure`] can have created the interface, so that it may be removed. Never true for the interface
/// of a real adapter.
fn is_stand_in(link: &Link) -> bool {
    let has_alias = link.alias.as_deref().is_some_and(|alias| alias.starts_with("ferroband "));
    match link.kind.as_deref() {
        Some("tun") => link.link_type == Link::ARPHRD_INFINIBAND || has_alias,
        Some("bridge") => has_alias,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_of_the_administrator_are_neither_used_nor_removed() {
        let link = |kind: &str, link_type, alias: Option<&str>| {
            let mut link = Link::default();
            (link.kind, link.link_type) = (Some(kind.to_owned()), link_type);
            link.alias = alias.map(str::to_owned);
            link
        };
        let own = alias_for("0000:86:00.0".parse().unwrap());
        assert!(is_stand_in(&link("tun", Link::ARPHRD_INFINIBAND, None)), "killed before the alias was set");
        for kind in ["tun", "bridge"] {
            assert!(is_stand_in(&link(kind, ETHERNET, Some(&own))), "{kind}");
            assert!(!is_stand_in(&link(kind, ETHERNET, None)), "{kind}");
            assert!(!is_stand_in(&link(kind, ETHERNET, Some("my uplink"))), "{kind}");
        }
        assert!(!is_stand_in(&link("veth", ETHERNET, Some(&own))));
    }
}
