//! Netlink, as far as the families that we speak have it in common (netlink(7)).
//!
//! ```text
//! Body ──▶ Message ──Socket::request──▶ kernel ──▶ Message ──▶ wire: the attributes we look at
//!                                        kernel ──▶ Listener: what it tells everybody
//! ```

pub(crate) mod attr;
mod builder;
mod error;
mod listener;
mod socket;

pub(crate) use attr::RawMessage;
pub(crate) use builder::MessageBuilder;
pub(crate) use error::{NetlinkError, NetlinkFamily};
pub(crate) use listener::{Listener, ListenerRead};
pub(crate) use socket::NetlinkSocket;

#[cfg(test)]
pub(crate) use socket::serialize;
