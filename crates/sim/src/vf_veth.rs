//! The interface of a virtual function: one end of a wire, whose other end is in the function's partition.
//!
//! ```text
//!   host or pod          host
//! ┌───────────┐ veth ┌─────────────────┐
//! │ ibs5f0v3  ├──────┤ fbf0v3 ─ fbk7fff │      up and down of the end that stays is the carrier of the other
//! └───────────┘      └─────────────────┘
//! ```

use crate::netdev;
use crate::partition::SimPartition;
use ferroband_kernel::rtnetlink::{Link, LinkKind, NewLink, RouteSocket};
use ferroband_kernel::{Error, Netns};
use ferroband_model::PciAddress;

/// IFNAMSIZ without the terminating zero.
const MAX_NAME: usize = 15;

/// A wire to have.
pub(crate) struct VfVeth {
    /// The function.
    pub(crate) function: PciAddress,
    /// The end that stays here: `fbf0v3`.
    pub(crate) host_end: String,
    /// What the function's end is called when it is made.
    pub(crate) name: String,
    /// Where it leads.
    pub(crate) partition: SimPartition,
    /// Whether there is a carrier.
    pub(crate) up: bool,
}

/// The end that stays of the wire of a virtual function.
pub(crate) fn host_end_name(adapter: usize, vf: usize) -> String {
    format!("fbf{adapter}v{vf}")
}

/// What the interface of virtual function `vf` is called, as systemd names them; the kernel's own pattern
/// when that is too long.
pub(crate) fn interface_name(physical: Option<&str>, vf: usize) -> String {
    let name = physical.map(|physical| format!("{physical}v{vf}"));
    name.filter(|name| name.len() <= MAX_NAME).unwrap_or_else(|| "ib%d".to_owned())
}

impl VfVeth {
    /// Has the wire, in the right partition and with the right carrier. One that is there may have its other
    /// end anywhere.
    pub(crate) fn ensure(&self, route: &mut RouteSocket, uplink: Option<&Link>) -> Result<(), Error> {
        let (bridge, mtu) = self.partition.ensure(route, uplink)?;
        if let Some(end) = route.link(&self.host_end)? {
            if end.master != Some(bridge) {
                route.set_master(end.index, Some(bridge))?;
            }
            return if end.up == self.up { Ok(()) } else { self.set_carrier(route, end.index) };
        }
        // A name that somebody else has is not ours to take; the kernel would number ours differently.
        let name = match route.link(&self.name)? {
            Some(_) => "ib%d",
            None => &self.name,
        };
        let kind = LinkKind::Veth { peer: name };
        let pair = NewLink {
            mtu: Some(mtu),
            master: Some(bridge),
            up: self.up,
            ..NewLink::new(&self.host_end, kind)
        };
        route.create_link(&pair)?;
        let end = route.link(&self.host_end)?.and_then(|end| end.parent);
        match end {
            Some(index) => route.set_alias(index, &netdev::alias_for(self.function)),
            None => Err(Error::NoParent { interface: self.host_end.clone() }),
        }
    }

    fn set_carrier(&self, route: &mut RouteSocket, index: u32) -> Result<(), Error> {
        if self.up { route.set_up(index) } else { route.set_down(index) }
    }

    /// Moves the function's end to another namespace, as the kernel would have made it there.
    pub(crate) fn move_to_netns(&self, route: &mut RouteSocket, netns: &Netns) -> Result<(), Error> {
        let Some(index) = route.link(&self.host_end)?.and_then(|end| end.parent) else { return Ok(()) };
        // The lowest free name of the kernel's pattern there.
        let mut there = RouteSocket::open_in(netns)?;
        let taken: Vec<String> = there.links()?.into_iter().map(|link| link.name).collect();
        let free = (0..u32::MAX).map(|number| format!("ib{number}")).find(|name| !taken.contains(name));
        let name = free.unwrap_or_else(|| self.name.clone());
        // By way of a name that nobody has: on the way it must be free in both namespaces.
        let passing = format!("{}x", self.host_end);
        route.rename_link(index, &passing)?;
        route.move_link(index, netns)?;
        match there.link(&passing)? {
            Some(link) => there.rename_link(link.index, &name),
            None => Ok(()),
        }
    }
}

/// Takes the wire away, wherever its other end is.
pub(crate) fn remove(route: &mut RouteSocket, here: &str) -> Result<(), Error> {
    match route.link(here)? {
        Some(link) if link.name == here && link.kind.as_deref() == Some("veth") => {
            route.delete_link(link.index)
        }
        _ => Ok(()),
    }
}
