//! Netlink code common to all families used here (netlink(7)).
//!
//! ```text
//! MessageBuilder ──▶ RawMessage ──NetlinkSocket::request──▶ kernel ──▶ RawMessage ──▶ attr: attributes
//!                                                           kernel ──▶ Listener: multicast events
//! ```

pub(crate) mod attr;
mod listener;
mod socket;

pub(crate) use attr::{MessageBuilder, NetlinkError, RawMessage};
pub(crate) use listener::{Listener, ListenerRead};
pub(crate) use socket::{NetlinkFamily, NetlinkSocket};

#[cfg(test)]
pub(crate) use socket::serialize;
