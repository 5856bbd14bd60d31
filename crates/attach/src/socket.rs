//! The socket between `ferroband-cni` and the node daemon; both sides use this one implementation.
//!
//! A message is its length (four bytes, big-endian) and that many bytes of JSON. File descriptors may ride on
//! the first byte of a message: that is how the pod's network namespace reaches the daemon, so that nobody
//! can make it open a path.

use ferroband_model::{Fault, FaultCode};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use serde::{Serialize, de::DeserializeOwned};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The longest message either side takes.
pub const MAX_MESSAGE_LEN: usize = 16 << 20;
/// The most file descriptors that a message has.
const MAX_FDS: usize = 2;

/// What can go wrong between the two sides.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// The socket failed, or a time limit passed.
    #[error("the socket: {0}")]
    Socket(#[from] io::Error),
    /// The other side ended the connection.
    #[error("the other side ended the connection")]
    Closed,
    /// A message is longer than [`LONGEST`].
    #[error("a message of {length} bytes is too long")]
    TooLong {
        /// How long it says it is.
        length: usize,
    },
    /// A message is not of the expected form.
    #[error("a message cannot be understood: {0}")]
    Malformed(#[from] serde_json::Error),
}

impl ChannelError {
    /// As people read it.
    pub fn fault(&self) -> Fault {
        Fault::new(
            FaultCode::DaemonAway,
            "the node daemon of ferroband",
            self.to_string(),
            "it is tried again; if this stays, look at the pod `ferroband-node` of this node",
        )
    }
}

impl From<rustix::io::Errno> for ChannelError {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::Socket(errno.into())
    }
}

/// One end of a connection.
#[derive(Debug)]
pub struct Channel {
    stream: UnixStream,
}

impl From<UnixStream> for Channel {
    fn from(stream: UnixStream) -> Self {
        Self { stream }
    }
}

impl Channel {
    /// Limit the time that one wait for the other side may take; `None` waits without end.
    pub fn set_timeout(&self, limit: Option<Duration>) -> Result<(), ChannelError> {
        self.stream.set_read_timeout(limit)?;
        self.stream.set_write_timeout(limit)?;
        Ok(())
    }

    /// The user at the other end (`SO_PEERCRED`: as it was when the connection was made). A daemon in a container
    /// sees a caller outside its PID namespace as pid 0, which rustix's type for credentials cannot hold.
    pub fn peer_uid(&self) -> Result<u32, ChannelError> {
        use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
        let peer = getsockopt(&self.stream, PeerCredentials).map_err(std::io::Error::from)?;
        Ok(peer.uid())
    }

    /// Send a message.
    pub fn send<T: Serialize>(&mut self, message: &T) -> Result<(), ChannelError> {
        self.send_with_fds(message, &[])
    }

    /// Send a message with a file descriptor.
    pub fn send_with_fd<T: Serialize>(&mut self, message: &T, fd: impl AsFd) -> Result<(), ChannelError> {
        self.send_with_fds(message, &[fd.as_fd()])
    }

    /// Receive a message. A file descriptor that comes along is closed.
    pub fn recv<T: DeserializeOwned>(&mut self) -> Result<T, ChannelError> {
        Ok(self.recv_with_fd()?.0)
    }

    /// Receive a message, and the file descriptor that came with it.
    pub fn recv_with_fd<T: DeserializeOwned>(&mut self) -> Result<(T, Option<OwnedFd>), ChannelError> {
        let (message, fds) = self.recv_with_fds()?;
        Ok((message, fds.into_iter().next()))
    }

    /// Receive a message, and the file descriptors that came with it.
    pub fn recv_with_fds<T: DeserializeOwned>(&mut self) -> Result<(T, Vec<OwnedFd>), ChannelError> {
        let mut header = [0; 4];
        let (first, fds) = self.recv_first(&mut header)?;
        self.fill(&mut header[first..])?;
        let length = u32::from_be_bytes(header) as usize;
        if length > MAX_MESSAGE_LEN {
            return Err(ChannelError::TooLong { length });
        }
        // Grown as bytes arrive, so that four bytes from a stranger do not cost 16 MiB.
        let mut body = Vec::new();
        let taken = (&self.stream).take(length as u64).read_to_end(&mut body)?;
        if taken < length {
            return Err(ChannelError::Closed);
        }
        Ok((serde_json::from_slice(&body)?, fds))
    }

    /// Send a message with file descriptors, two at most.
    pub fn send_with_fds<T: Serialize>(
        &mut self,
        message: &T,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), ChannelError> {
        let mut frame = vec![0; 4];
        serde_json::to_writer(&mut frame, message)?;
        let length = frame.len() - 4;
        if length > MAX_MESSAGE_LEN {
            return Err(ChannelError::TooLong { length });
        }
        frame[..4].copy_from_slice(&(length as u32).to_be_bytes());

        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(fds));
        }
        let sent = retry(|| {
            // NOSIGNAL: a daemon that died is an error to handle, not a reason to die as well.
            rustix::net::sendmsg(&self.stream, &[IoSlice::new(&frame)], &mut control, SendFlags::NOSIGNAL)
        })?;
        // The rest goes without the descriptor. Rust programs ignore SIGPIPE, so a plain write will do.
        self.stream.write_all(&frame[sent..])?;
        Ok(())
    }

    /// The first bytes of a message and the descriptors that ride on them.
    fn recv_first(&self, header: &mut [u8; 4]) -> Result<(usize, Vec<OwnedFd>), ChannelError> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = retry(|| {
            let buffers = &mut [IoSliceMut::new(header)];
            rustix::net::recvmsg(&self.stream, buffers, &mut control, RecvFlags::CMSG_CLOEXEC)
        })?;
        if received.bytes == 0 {
            return Err(ChannelError::Closed);
        }
        let mut fds = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                fds.extend(received);
            }
        }
        Ok((received.bytes, fds))
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), ChannelError> {
        self.stream.read_exact(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => ChannelError::Closed,
            _ => error.into(),
        })
    }
}

fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests;
