//! RDMA devices of a namespace, by NETLINK_RDMA (rdma/rdma_netlink.h; what rdma(8) uses).
//!
//! A socket sees the devices of the network namespace that it was opened in: all of the machine's when
//! namespaces are shared, its own when they are exclusive.
//!
//! ```text
//! Rdma ─┬─ device   devices, device, rename, move_to   ──▶ RdmaLink
//!       ├─ port     ports                              ──▶ RdmaPort
//!       └─ system   netns_mode, set_netns_mode         ──▶ NetnsMode
//!            └─ message   commands and attributes, by number
//! ```

mod device;
mod message;
mod port;
mod system;
#[cfg(test)]
mod tests;

pub use device::RdmaDeviceInfo;
pub use port::RdmaPort;
pub use system::NetnsMode;

use crate::netlink::{NetlinkFamily, NetlinkSocket};
use crate::{Error, Netns};

/// A blocking RDMA netlink socket in one network namespace.
#[derive(Debug)]
pub struct RdmaSocket {
    socket: NetlinkSocket,
    /// Where it was opened, when that is not where its owner is.
    netns: Option<Netns>,
}

impl RdmaSocket {
    /// In the calling thread's namespace. A kernel without RDMA is [`Error::NoRdma`].
    pub fn open() -> Result<Self, Error> {
        Ok(Self { socket: NetlinkSocket::open(NetlinkFamily::Rdma)?, netns: None })
    }

    /// In `netns`; the calling thread stays where it is.
    pub fn open_in(netns: &Netns) -> Result<Self, Error> {
        let socket = netns.run(|| NetlinkSocket::open(NetlinkFamily::Rdma))??;
        Ok(Self { socket, netns: Some(netns.try_clone()?) })
    }
}
