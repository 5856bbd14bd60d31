//! Interfaces, addresses and routes, by NETLINK_ROUTE (rtnetlink(7)).
//!
//! A socket keeps the network namespace that it was opened in, so one opened with [`Route::inside`] works there
//! from any thread.
//!
//! ```text
//! Route ─┬─ lookup   link, link_by_index, links            ──▶ Link
//!        ├─ create   create(NewLink { kind: Kind, … })
//!        ├─ change   rename, set_mtu, up, down, move_to, altnames, master, delete
//!        ├─ address  add_address, addresses
//!        └─ path     add_route, routes                      ──▶ Path
//!             └─ socket   one request, its answers, the kernel's words when it refuses; wire reads them
//! ```
//!
//! VF lists are never asked for: with many VFs they outgrow a netlink attribute. sysfs has them.

mod address;
mod change;
mod create;
mod link;
mod lookup;
mod path;
mod socket;
#[cfg(test)]
mod tests;
mod wire;

pub use create::{Kind, NewLink, Vxlan};
pub use link::{Ipoib, Link};
pub use path::Path;

use crate::{Error, Netns};
use socket::{Failure, Socket};

/// A blocking route netlink socket in one network namespace.
#[derive(Debug)]
pub struct Route {
    socket: Socket,
}

impl Route {
    /// In the calling thread's namespace.
    pub fn here() -> Result<Self, Error> {
        Ok(Self { socket: Socket::open()? })
    }

    /// In `netns`; the calling thread stays where it is.
    pub fn inside(netns: &Netns) -> Result<Self, Error> {
        netns.run(Self::here)?
    }

    /// The error of a request about the interface of `index`, with the interface's name while it has one.
    fn refused(&mut self, doing: impl Into<String>, index: u32, failure: Failure) -> Error {
        failure.about(doing, self.name(index))
    }

    fn name(&mut self, index: u32) -> String {
        match self.link_by_index(index) {
            Ok(Some(link)) => link.name,
            Ok(None) | Err(_) => format!("#{index}"),
        }
    }
}
