//! Interfaces, addresses, routes and rules via NETLINK_ROUTE (rtnetlink(7)).
//!
//! A socket belongs to the network namespace in which it was opened, so one opened with [`RouteSocket::open_in`]
//! works on that namespace from any thread.
//!
//! ```text
//! RouteSocket ─┬─ link       link, link_by_index, links                          ──▶ Link
//!              ├─ create     create_link(NewLink { kind: LinkKind, … })
//!              ├─ change     rename_link, set_mtu, set_up, set_down, move_link, altnames, set_master, delete_link
//!              ├─ address    add_address, addresses, set_neighbour
//!              ├─ route_spec append_route, remove_route, all_routes              ──▶ RouteSpec, RouteEntry
//!              ├─ rule       add_rule, remove_rule, rules                        ──▶ RoutingRule
//!              └─ vf         vfs, set_vf_guid, set_vf_link_state                 ──▶ VfInfo
//!
//! LinkEventSocket ── interface events
//! ```
//!
//! VF lists are requested only where they are needed: with many VFs they exceed the size of a netlink attribute.

mod address;
mod change;
mod create;
mod events;
mod link;
mod route_entry;
mod route_spec;
mod rule;
#[cfg(test)]
mod tests;
mod vf;

pub use create::{LinkKind, NewLink, Vxlan};
pub use events::LinkEventSocket;
pub use ferroband_model::VfLinkState;
pub use link::{IpoibInfo, Link, LinkStats};
pub use route_entry::RouteEntry;
pub use route_spec::RouteSpec;
pub use rule::RoutingRule;
pub use vf::{GuidKind, VfInfo};

use crate::netlink::{NetlinkError, NetlinkFamily, NetlinkSocket, RawMessage};
use crate::{Error, Netns};
use nix::errno::Errno;

/// A blocking rtnetlink socket in one network namespace.
#[derive(Debug)]
pub struct RouteSocket {
    socket: NetlinkSocket,
}

impl RouteSocket {
    /// Opens a socket in the namespace of the calling thread.
    pub fn open() -> Result<Self, Error> {
        Ok(Self { socket: NetlinkSocket::open(NetlinkFamily::Route)? })
    }

    /// Opens a socket in `netns`; the calling thread does not change its namespace.
    pub fn open_in(netns: &Netns) -> Result<Self, Error> {
        netns.run(Self::open)?
    }

    /// Converts the error of a request about an interface. The result contains the interface's name, or its index
    /// if it no longer exists.
    fn interface_error(&mut self, doing: impl Into<String>, index: u32, failure: NetlinkError) -> Error {
        failure.for_interface(doing, self.name_of(index))
    }

    /// Sends a request about an interface. An error in `tolerated` means that there is nothing to do.
    fn request_on(
        &mut self,
        doing: impl Into<String>,
        index: u32,
        message: RawMessage,
        flags: u16,
        tolerated: &[Errno],
    ) -> Result<(), Error> {
        match self.socket.request(message, flags) {
            Err(failure) if !failure.errno().is_some_and(|errno| tolerated.contains(&errno)) => {
                Err(self.interface_error(doing, index, failure))
            }
            _ => Ok(()),
        }
    }

    fn name_of(&mut self, index: u32) -> String {
        match self.link_by_index(index) {
            Ok(Some(link)) => link.name,
            Ok(None) | Err(_) => format!("#{index}"),
        }
    }
}

/// Decodes the bytes as every type of message received from the kernel and discards the result. Fuzz tests call
/// this, because decoding must never panic.
#[doc(hidden)]
pub fn decode_anything(payload: &[u8]) {
    // RTM_NEWLINK, RTM_NEWADDR, RTM_NEWROUTE and RTM_NEWRULE of linux/rtnetlink.h, and the RDMA netlink reply
    // about a device.
    for kind in [16, 20, 24, 32, (5 << 10) | 1] {
        let message = RawMessage { kind, payload: payload.to_vec() };
        let _ = Link::decode(&message);
        let _ = RouteEntry::decode(&message);
        let _ = rule::decode(&message);
        let _ = address::decode(&message, 3);
        let _ = vf::decode(&message);
        let _ = crate::rdma::RdmaDeviceInfo::decode(&message);
    }
}
