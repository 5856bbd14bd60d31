//! The interface of a simulated port.

use crate::sysfs_tree::{ETHERNET_MTU, IPOIB_MTU};
use crate::{Error, NetdevProfile};
use ferroband_kernel::rtnetlink::{Link, LinkKind, NewLink, RouteSocket};
use ferroband_kernel::tap;
use ferroband_model::{LinkLayer, PciAddress};

/// ARPHRD_ETHER of linux/if_arp.h.
const ETHERNET: u16 = 1;

/// What is written on every interface of a function: the kernel tells which device an interface is on, and of
/// ours there is none to tell of.
pub(crate) fn alias_for(function: PciAddress) -> String {
    format!("ferroband {function}")
}

/// The function whose interface has this alias.
pub(crate) fn function_from_alias(alias: &str) -> Option<PciAddress> {
    alias.strip_prefix("ferroband ")?.parse().ok()
}

/// Has the interface in this thread's network namespace, up and with all its names.
///
/// A tap can say that its link is InfiniBand; the kernel gives such a tap no hardware address, so the 20
/// bytes are in the simulated sysfs only. Where there is no tun, a bridge without ports stands in.
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
    // First: by this it is known as ours when Ethernet is all that it says.
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

/// Takes the interface away, if it is there and one of ours.
pub(crate) fn remove(route: &mut RouteSocket, name: &str) -> Result<(), Error> {
    match route.link(name)? {
        Some(link) if link.name == name && is_stand_in(&link) => Ok(route.delete_link(link.index)?),
        _ => Ok(()),
    }
}

/// Whether it is what [`ensure`] makes, and so what [`remove`] may take away: never a real interface.
fn is_stand_in(link: &Link) -> bool {
    match link.kind.as_deref() {
        Some("tun") => {
            let ours = link.alias.as_deref().is_some_and(|alias| alias.starts_with("ferroband "));
            link.link_type == Link::ARPHRD_INFINIBAND || ours
        }
        Some("bridge") => true,
        _ => false,
    }
}
