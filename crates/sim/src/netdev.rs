//! The interface of a simulated port.

use crate::tree::IPOIB_MTU;
use crate::{Error, Netdev};
use ferroband_kernel::route::{Kind, Link, NewLink, Route};
use ferroband_kernel::tap;

/// Has the interface in this thread's network namespace, up and with all its names.
///
/// A tap can say that its link is InfiniBand; the kernel gives such a tap no hardware address, so the 20 bytes
/// are in the simulated sysfs only. Where there is no tun, a bridge without ports stands in.
pub(crate) fn ensure(route: &mut Route, netdev: &Netdev) -> Result<(), Error> {
    let link = match route.link(&netdev.name)? {
        Some(link) if is_ours(&link, netdev) => link,
        Some(link) => {
            return Err(Error::NameTaken { netdev: netdev.name.clone(), kind: link.kind_or_type() });
        }
        None => {
            if tap::create(&netdev.name, Link::INFINIBAND).is_err() {
                route.create(&NewLink::new(&netdev.name, Kind::Bridge))?;
            }
            route
                .link(&netdev.name)?
                .ok_or_else(|| ferroband_kernel::Error::NoParent { interface: netdev.name.clone() })?
        }
    };
    if link.mtu != IPOIB_MTU {
        route.set_mtu(link.index, IPOIB_MTU)?;
    }
    for altname in netdev.altnames.iter().filter(|altname| !link.altnames.contains(altname)) {
        route.add_altname(link.index, altname)?;
    }
    if !link.up {
        route.up(link.index)?;
    }
    Ok(())
}

/// Takes the interface away, if it is there and one of ours.
pub(crate) fn remove(route: &mut Route, name: &str) -> Result<(), Error> {
    match route.link(name)? {
        Some(link) if link.name == name && is_stand_in(&link) => Ok(route.delete(link.index)?),
        _ => Ok(()),
    }
}

fn is_ours(link: &Link, netdev: &Netdev) -> bool {
    link.name == netdev.name && is_stand_in(link)
}

/// Whether it is what [`ensure`] makes, and so what [`remove`] may take away: never a real interface.
fn is_stand_in(link: &Link) -> bool {
    match link.kind.as_deref() {
        Some("tun") => link.link_type == Link::INFINIBAND,
        Some("bridge") => true,
        _ => false,
    }
}
