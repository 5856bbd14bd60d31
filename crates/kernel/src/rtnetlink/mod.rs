//! Interfaces, addresses and routes, by NETLINK_ROUTE (rtnetlink(7)).
//!
//! A socket keeps the network namespace that it was opened in, so one opened with [`Route::inside`] works
//! there from any thread.
//!
//! ```text
//! Route ─┬─ lookup   link, link_by_index, links            ──▶ Link
//!        ├─ create   create(NewLink { kind: Kind, … })
//!        ├─ change   rename, set_mtu, up, down, move_to, altnames, master, delete
//!        ├─ address  add_address, addresses
//!        ├─ neighbour set_neighbour, remove_neighbour
//!        ├─ path     append_route, routes, all_routes      ──▶ Path, RouteSpec, RouteEntry
//!        ├─ rule     add_rule, remove_rule, rules          ──▶ Rule
//!        └─ vf       vfs, set_vf_guid, set_vf_state        ──▶ Vf
//!
//! LinkEvents ── what happens to interfaces meanwhile
//! ```
//!
//! VF lists are asked for only where they are needed: with many VFs they outgrow a netlink attribute.

mod address;
mod change;
mod create;
mod events;
mod link;
mod lookup;
mod neighbour;
mod route_entry;
mod route_spec;
mod rule;
#[cfg(test)]
mod tests;
mod vf;
#[cfg(test)]
mod vf_tests;

pub use create::{LinkKind, NewLink, Vxlan};
pub use events::{LinkEvent, LinkEventSocket};
pub use link::{IpoibInfo, Link, LinkStats};
pub use route_entry::RouteEntry;
pub use route_spec::{MainRoute, RouteSpec};
pub use rule::RoutingRule;
pub use vf::{GuidKind, VfInfo, VfLinkState};

use crate::netlink::{NetlinkError, NetlinkFamily, NetlinkSocket};
use crate::{Error, Netns};

/// A blocking route netlink socket in one network namespace.
#[derive(Debug)]
pub struct RouteSocket {
    socket: NetlinkSocket,
}

impl RouteSocket {
    /// In the calling thread's namespace.
    pub fn open() -> Result<Self, Error> {
        Ok(Self { socket: NetlinkSocket::open(NetlinkFamily::Route)? })
    }

    /// In `netns`; the calling thread stays where it is.
    pub fn open_in(netns: &Netns) -> Result<Self, Error> {
        netns.run(Self::open)?
    }

    /// The error of a request about the interface of `index`, with the interface's name while it has one.
    fn interface_error(&mut self, doing: impl Into<String>, index: u32, failure: NetlinkError) -> Error {
        failure.for_interface(doing, self.name_of(index))
    }

    fn name_of(&mut self, index: u32) -> String {
        match self.link_by_index(index) {
            Ok(Some(link)) => link.name,
            Ok(None) | Err(_) => format!("#{index}"),
        }
    }
}

/// Reads the bytes as every answer that is read from the kernel, and forgets what they say. For tests that send what no
/// kernel does: none of it may panic.
#[doc(hidden)]
pub fn decode_anything(payload: &[u8]) {
    // RTM_NEWLINK, RTM_NEWADDR, RTM_NEWROUTE, RTM_NEWRULE of linux/rtnetlink.h, and RDMA netlink's device.
    for kind in [16, 20, 24, 32, (5 << 10) | 1] {
        let message = crate::netlink::RawMessage { kind, payload: payload.to_vec() };
        let _ = Link::decode(&message);
        let _ = RouteEntry::decode(&message);
        let _ = rule::decode(&message);
        let _ = address::decode(&message, 3);
        let _ = vf::decode(&message);
        let _ = crate::rdma::RdmaDeviceInfo::decode(&message);
    }
}
