//! What the kernel tells everybody who listens.

use super::Family;
use crate::Error;
use netlink_sys::SocketAddr;
use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::libc::{MSG_PEEK, MSG_TRUNC};
use nix::sys::socket::{setsockopt, sockopt};

/// Room for what is told while the reader is busy: some thousand events.
const BACKLOG: usize = 4 << 20;

/// A socket that has joined a multicast group. Reading never blocks; poll its descriptor.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: netlink_sys::Socket,
    family: Family,
    buffer: Vec<u8>,
}

/// What a look at a [`Listener`] gave.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard<'a> {
    /// One datagram.
    Told(&'a [u8]),
    /// Some were lost because they came faster than they were read.
    Lost,
    /// There is none now.
    Nothing,
}

impl Listener {
    /// Joins the groups of a bit mask (bit 0 is group 1), in the calling thread's network namespace.
    pub(crate) fn join(family: Family, groups: u32) -> Result<Self, Error> {
        let open = || {
            let mut socket = netlink_sys::Socket::new(family.protocol())?;
            // Beyond the administrator's limit if we may (CAP_NET_ADMIN), else up to it.
            if setsockopt(&borrowed(&socket), sockopt::RcvBufForce, &BACKLOG).is_err() {
                let _ = setsockopt(&borrowed(&socket), sockopt::RcvBuf, &BACKLOG);
            }
            socket.bind(&SocketAddr::new(0, groups))?;
            socket.set_non_blocking(true)?;
            Ok(socket)
        };
        match open() {
            Ok(socket) => Ok(Self { socket, family, buffer: Vec::new() }),
            Err(source) => Err(family.failed("listen to", source)),
        }
    }

    /// The next thing told, if there is one.
    pub(crate) fn next(&mut self) -> Result<Heard<'_>, Error> {
        loop {
            self.buffer.clear();
            let length = match self.socket.recv(&mut self.buffer, MSG_PEEK | MSG_TRUNC) {
                Ok(length) => length,
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => continue,
                    ErrorKind::WouldBlock => return Ok(Heard::Nothing),
                    _ if error.raw_os_error() == Some(Errno::ENOBUFS as i32) => return Ok(Heard::Lost),
                    _ => return Err(self.family.failed("read from", error)),
                },
            };
            self.buffer.clear();
            self.buffer.reserve(length);
            match self.socket.recv_from(&mut self.buffer, 0) {
                // Port 0 is the kernel; anybody else may only talk to us with privileges, and is not
                // believed.
                Ok((_, from)) if from.port_number() == 0 => return Ok(Heard::Told(&self.buffer)),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.family.failed("read from", error)),
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        borrowed(&self.socket)
    }
}

#[expect(unsafe_code, reason = "netlink-sys has only the raw descriptor of its socket")]
fn borrowed(socket: &netlink_sys::Socket) -> BorrowedFd<'_> {
    // SAFETY: the socket is open as long as it is borrowed, and so is its descriptor.
    unsafe { BorrowedFd::borrow_raw(socket.as_raw_fd()) }
}
