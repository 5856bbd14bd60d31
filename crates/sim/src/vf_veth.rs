//! The interface of a virtual function: one end of a veth pair whose other end is in the function's partition.
//!
//! ```text
//!   host or pod          host
//! ┌───────────┐ veth ┌─────────────────┐
//! │ ibs5f0v3  ├──────┤ fbf0v3 ─ fbk7fff │      the host end's state, up or down, is the carrier of the other end
//! └───────────┘      └─────────────────┘
//! ```

use crate::netdev;
use crate::partition::SimPartition;
use ferroband_kernel::rtnetlink::{Link, LinkKind, NewLink, RouteSocket};
use ferroband_kernel::{Error, Netns};
use ferroband_model::PciAddress;

/// IFNAMSIZ without the terminating zero.
const MAX_NAME: usize = 15;

/// Desired veth pair of a virtual function.
pub(crate) struct VfVeth {
    pub(crate) function: PciAddress,
    /// Name of the end that stays on the host, for example `fbf0v3`.
    pub(crate) host_end: String,
    /// Initial name of the function's end, for example `ibs5f0v3`. A pod may rename it.
    pub(crate) name: String,
    pub(crate) partition: SimPartition,
    /// Whether the function's end has a carrier.
    pub(crate) up: bool,
}

/// Name of the host end of a virtual function's veth pair.
pub(crate) fn host_end_name(adapter: usize, vf: usize) -> String {
    format!("fbf{adapter}v{vf}")
}

/// Returns the name that systemd gives to the interface of virtual function `vf`. If that name is too long,
/// returns the kernel's pattern `ib%d`.
pub(crate) fn interface_name(physical: Option<&str>, vf: usize) -> String {
    let name = physical.map(|physical| format!("{physical}v{vf}"));
    name.filter(|name| name.len() <= MAX_NAME).unwrap_or_else(|| "ib%d".to_owned())
}

impl VfVeth {
    /// Creates the veth pair if necessary, and sets its partition and carrier. The other end of an existing pair
    /// may be in any namespace.
    pub(crate) fn ensure(&self, route: &mut RouteSocket, uplink: Option<&Link>) -> Result<(), Error> {
        let (bridge, mtu) = self.partition.ensure(route, uplink)?;
        if let Some(end) = route.link(&self.host_end)? {
            if end.master != Some(bridge) {
                route.set_master(end.index, Some(bridge))?;
            }
            return if end.up == self.up { Ok(()) } else { self.set_carrier(route, end.index) };
        }
        // If another interface has the name, use the kernel's pattern `ib%d`.
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

    /// Moves the function's end to another namespace, where the kernel would have created it.
    pub(crate) fn move_to_netns(&self, route: &mut RouteSocket, netns: &Netns) -> Result<(), Error> {
        let Some(index) = route.link(&self.host_end)?.and_then(|end| end.parent) else { return Ok(()) };
        // Find the lowest free name of the kernel's pattern `ib%d` in that namespace.
        let mut target = RouteSocket::open_in(netns)?;
        let taken: Vec<String> = target.links()?.into_iter().map(|link| link.name).collect();
        let free = (0..u32::MAX).map(|number| format!("ib{number}")).find(|name| !taken.contains(name));
        let name = free.unwrap_or_else(|| self.name.clone());
        // Use a temporary name during the move, because the name must be free in both namespaces.
        let temporary = format!("{}x", self.host_end);
        route.rename_link(index, &temporary)?;
        route.move_link(index, netns)?;
        match target.link(&temporary)? {
            Some(link) => target.rename_link(link.index, &name),
            None => Ok(()),
        }
    }
}

/// Removes the veth pair, wherever its other end is.
pub(crate) fn remove(route: &mut RouteSocket, host_end: &str) -> Result<(), Error> {
    match route.link(host_end)? {
        Some(link) if link.name == host_end && link.kind.as_deref() == Some("veth") => {
            route.delete_link(link.index)
        }
        _ => Ok(()),
    }
}
