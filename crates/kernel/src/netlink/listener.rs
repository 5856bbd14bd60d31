//! Sockets that receive events from netlink multicast groups.

use super::NetlinkFamily;
use crate::Error;
use netlink_sys::SocketAddr;
use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::libc::{MSG_PEEK, MSG_TRUNC};
use nix::sys::socket::{setsockopt, sockopt};

/// Size of the receive buffer in bytes, enough for several thousand events while the reader is busy.
const RECEIVE_BUFFER: usize = 4 << 20;

/// A socket that has joined a multicast group. Reading does not block; poll its descriptor to wait for
/// events.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: netlink_sys::Socket,
    family: NetlinkFamily,
    buffer: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ListenerRead<'a> {
    Datagram(&'a [u8]),
    /// Datagrams were dropped because the receive buffer was full.
    Lost,
    /// No datagram is available.
    Empty,
}

impl Listener {
    /// Joins the groups of a bit mask (bit 0 is group 1) in the network namespace of the calling thread.
    pub(crate) fn join(family: NetlinkFamily, groups: u32) -> Result<Self, Error> {
        let open = || {
            let mut socket = netlink_sys::Socket::new(family.protocol())?;
            // SO_RCVBUFFORCE needs CAP_NET_ADMIN and ignores net.core.rmem_max. Without the capability, SO_RCVBUF
            // sets the size up to that limit.
            if setsockopt(&borrow_fd(&socket), sockopt::RcvBufForce, &RECEIVE_BUFFER).is_err() {
                let _ = setsockopt(&borrow_fd(&socket), sockopt::RcvBuf, &RECEIVE_BUFFER);
            }
            socket.bind(&SocketAddr::new(0, groups))?;
            socket.set_non_blocking(true)?;
            Ok(socket)
        };
        match open() {
            Ok(socket) => Ok(Self { socket, family, buffer: Vec::new() }),
            Err(source) => Err(family.socket_error("listen to", source)),
        }
    }

    /// Reads the next datagram from the kernel without blocking.
    pub(crate) fn next(&mut self) -> Result<ListenerRead<'_>, Error> {
        loop {
            self.buffer.clear();
            let length = match self.socket.recv(&mut self.buffer, MSG_PEEK | MSG_TRUNC) {
                Ok(length) => length,
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => continue,
                    ErrorKind::WouldBlock => return Ok(ListenerRead::Empty),
                    _ if error.raw_os_error() == Some(Errno::ENOBUFS as i32) => {
                        return Ok(ListenerRead::Lost);
                    }
                    _ => return Err(self.family.socket_error("read from", error)),
                },
            };
            self.buffer.clear();
            self.buffer.reserve(length);
            match self.socket.recv_from(&mut self.buffer, 0) {
                // Port 0 is the kernel. Datagrams of other (privileged) senders are ignored.
                Ok((_, from)) if from.port_number() == 0 => return Ok(ListenerRead::Datagram(&self.buffer)),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.family.socket_error("read from", error)),
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        borrow_fd(&self.socket)
    }
}

#[expect(unsafe_code, reason = "netlink-sys exposes only the raw descriptor of its socket")]
fn borrow_fd(socket: &netlink_sys::Socket) -> BorrowedFd<'_> {
    // SAFETY: the descriptor is open as long as the borrowed socket exists.
    unsafe { BorrowedFd::borrow_raw(socket.as_raw_fd()) }
}
