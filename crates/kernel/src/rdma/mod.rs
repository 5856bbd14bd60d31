//! RDMA devices of a network namespace via NETLINK_RDMA (rdma/rdma_netlink.h; used by rdma(8)).
//!
//! A socket sees the devices of the network namespace in which it was opened: all devices of the host in shared
//! mode, only those of the namespace in exclusive mode.
//!
//! ```text
//! RdmaSocket ─┬─ device   devices, device, move_device         ──▶ RdmaDeviceInfo
//!             └─ system   netns_mode, set_netns_mode           ──▶ NetnsMode
//!                  └─ message   commands and attributes
//! ```

mod device;
mod message;
mod system;
#[cfg(test)]
mod tests;

pub use device::RdmaDeviceInfo;
pub use system::NetnsMode;

use crate::netlink::{NetlinkFamily, NetlinkSocket};
use crate::{Error, Netns};

/// A blocking RDMA netlink socket in one network namespace.
#[derive(Debug)]
pub struct RdmaSocket {
    socket: NetlinkSocket,
    /// The namespace of the socket if it was opened with `open_in`. `move_device` must enter it.
    netns: Option<Netns>,
}

impl RdmaSocket {
    /// Opens a socket in the namespace of the calling thread. Returns [`Error::NoRdma`] if the kernel has no RDMA
    /// support.
    pub fn open() -> Result<Self, Error> {
        Ok(Self { socket: NetlinkSocket::open(NetlinkFamily::Rdma)?, netns: None })
    }

    /// Opens a socket in `netns`; the calling thread does not change its namespace.
    pub fn open_in(netns: &Netns) -> Result<Self, Error> {
        let socket = netns.run(|| NetlinkSocket::open(NetlinkFamily::Rdma))??;
        Ok(Self { socket, netns: Some(netns.try_clone()?) })
    }
}
