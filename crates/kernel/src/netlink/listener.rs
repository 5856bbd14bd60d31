//! What the kernel tells everybody who listens.

use super::NetlinkFamily;
use crate::Error;
use netlink_sys::SocketAddr;
use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::libc::{MSG_PEEK, MSG_TRUNC};
use nix::sys::socket::{setsockopt, sockopt};

/// Room for what is told while the reader is busy: some thousand events.
const RECEIVE_BUFFER: usize = 4 << 20;

/// A socket that has joined a multicast group. Reading never blocks; poll its descriptor.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: netlink_sys::Socket,
    family: NetlinkFamily,
    buffer: Vec<u8>,
}

/// What a look at a [`Listener`] gave.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ListenerRead<'a> {
    /// One datagram.
    Datagram(&'a [u8]),
    /// Some were lost because they came faster than they were read.
    Lost,
    /// There is none now.
    Empty,
}

impl Listener {
    /// Joins the groups of a bit mask (bit 0 is group 1), in the calling thread's network namespace.
    pub(crate) fn join(family: NetlinkFamily, groups: u32) -> Result<Self, Error> {
        let open = || {
            let mut socket = netlink_sys::Socket::new(family.protocol())?;
            // Beyond the administrator's limit if we may (CAP_NET_ADMIN), else up to it.
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

    /// The next thing told, if there is one.
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
                // Port 0 is the kernel; anybody else may only talk to us with privileges, and is not
                // believed.
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

#[expect(unsafe_code, reason = "netlink-sys has only the raw descriptor of its socket")]
fn borrow_fd(socket: &netlink_sys::Socket) -> BorrowedFd<'_> {
    // SAFETY: the socket is open as long as it is borrowed, and so is its descriptor.
    unsafe { BorrowedFd::borrow_raw(socket.as_raw_fd()) }
}
