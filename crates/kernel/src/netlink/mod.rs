//! Netlink, as far as the families that we speak have it in common (netlink(7)).
//!
//! ```text
//! Body ──▶ Message ──Socket::request──▶ kernel ──▶ Message ──▶ wire: the attributes we look at
//!                                        kernel ──▶ Listener: what it tells everybody
//! ```

mod body;
mod failure;
mod listener;
mod socket;
pub(crate) mod wire;

pub(crate) use body::Body;
pub(crate) use failure::{Failure, Family};
pub(crate) use listener::{Heard, Listener};
pub(crate) use socket::Socket;
pub(crate) use wire::Message;

#[cfg(test)]
pub(crate) use socket::serialize;
