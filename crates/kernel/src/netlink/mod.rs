//! Netlink code common to all families used here (netlink(7)).
//!
//! ```text
//! MessageBuilder ──▶ RawMessage ──NetlinkSocket::request──▶ kernel ──▶ RawMessage ──▶ attr: attributes
//!                                                           kernel ──▶ Listener: multicast events
//! ```

pub(crate) mod attr;
mod error;
mod listener;
mod socket;

pub(crate) use attr::{MessageBuilder, RawMessage};
pub(crate) use error::{NetlinkError, NetlinkFamily};
pub(crate) use listener::{Listener, ListenerRead};
pub(crate) use socket::NetlinkSocket;

#[cfg(test)]
pub(crate) use socket::serialize;
