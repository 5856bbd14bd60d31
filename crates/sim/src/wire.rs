//! The interface of a virtual function: one end of a wire, whose other end is in the function's partition.
//!
//! ```text
//!   host or pod          host
//! ┌───────────┐ veth ┌─────────────────┐
//! │ ibs5f0v3  ├──────┤ fbf0v3 ─ fbk7fff │      up and down of the end that stays is the carrier of the other
//! └───────────┘      └─────────────────┘
//! ```

use crate::netdev;
use crate::partition::Partition;
use ferroband_kernel::route::{Kind, Link, NewLink, Route};
use ferroband_kernel::{Error, Netns};
use ferroband_model::PciAddress;

/// IFNAMSIZ without the terminating zero.
const NAME: usize = 15;

/// A wire to have.
pub(crate) struct Wire {
    /// The function.
    pub(crate) function: PciAddress,
    /// The end that stays here: `fbf0v3`.
    pub(crate) here: String,
    /// What the function's end is called when it is made.
    pub(crate) name: String,
    /// Where it leads.
    pub(crate) partition: Partition,
    /// Whether there is a carrier.
    pub(crate) up: bool,
}

/// The end that stays of the wire of a virtual function.
pub(crate) fn here(adapter: usize, vf: usize) -> String {
    format!("fbf{adapter}v{vf}")
}

/// What the interface of virtual function `vf` is called, as systemd names them; the kernel's own pattern
/// when that is too long.
pub(crate) fn name(physical: Option<&str>, vf: usize) -> String {
    let name = physical.map(|physical| format!("{physical}v{vf}"));
    name.filter(|name| name.len() <= NAME).unwrap_or_else(|| "ib%d".to_owned())
}

impl Wire {
    /// Has the wire, in the right partition and with the right carrier. One that is there may have its other
    /// end anywhere.
    pub(crate) fn ensure(&self, route: &mut Route, uplink: Option<&Link>) -> Result<(), Error> {
        let (bridge, mtu) = self.partition.ensure(route, uplink)?;
        if let Some(end) = route.link(&self.here)? {
            if end.master != Some(bridge) {
                route.set_master(end.index, Some(bridge))?;
            }
            return if end.up == self.up { Ok(()) } else { self.carrier(route, end.index) };
        }
        // A name that somebody else has is not ours to take; the kernel would number ours differently.
        let name = match route.link(&self.name)? {
            Some(_) => "ib%d",
            None => &self.name,
        };
        let kind = Kind::Veth { peer: name };
        let pair =
            NewLink { mtu: Some(mtu), master: Some(bridge), up: self.up, ..NewLink::new(&self.here, kind) };
        route.create(&pair)?;
        let end = route.link(&self.here)?.and_then(|end| end.parent);
        match end {
            Some(index) => route.set_alias(index, &netdev::alias(self.function)),
            None => Err(Error::NoParent { interface: self.here.clone() }),
        }
    }

    fn carrier(&self, route: &mut Route, index: u32) -> Result<(), Error> {
        if self.up { route.up(index) } else { route.down(index) }
    }

    /// Moves the function's end to another namespace, as the kernel would have made it there.
    pub(crate) fn send(&self, route: &mut Route, netns: &Netns) -> Result<(), Error> {
        let Some(index) = route.link(&self.here)?.and_then(|end| end.parent) else { return Ok(()) };
        // The lowest free name of the kernel's pattern there.
        let mut there = Route::inside(netns)?;
        let taken: Vec<String> = there.links()?.into_iter().map(|link| link.name).collect();
        let free = (0..u32::MAX).map(|number| format!("ib{number}")).find(|name| !taken.contains(name));
        let name = free.unwrap_or_else(|| self.name.clone());
        // By way of a name that nobody has: on the way it must be free in both namespaces.
        let passing = format!("{}x", self.here);
        route.rename(index, &passing)?;
        route.move_to(index, netns)?;
        match there.link(&passing)? {
            Some(link) => there.rename(link.index, &name),
            None => Ok(()),
        }
    }
}

/// Takes the wire away, wherever its other end is.
pub(crate) fn remove(route: &mut Route, here: &str) -> Result<(), Error> {
    match route.link(here)? {
        Some(link) if link.name == here && link.kind.as_deref() == Some("veth") => route.delete(link.index),
        _ => Ok(()),
    }
}
