//! The socket between `ferroband-cni` and the node daemon, used by both sides.
//!
//! A message is a length (four bytes, big-endian) followed by that many bytes of JSON. File descriptors may accompany
//! the first byte of a message. The pod's network namespace is passed that way, so that a client cannot make the daemon
//! open a path.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use serde::{Serialize, de::DeserializeOwned};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

pub use crate::protocol::ChannelError;

/// Maximum length of a message, in bytes.
pub const MAX_MESSAGE_LEN: usize = 16 << 20;
/// Maximum number of file descriptors per message.
const MAX_FDS: usize = 2;

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
    /// Set the timeout for each read and write; `None` waits forever.
    pub fn set_timeout(&self, limit: Option<Duration>) -> Result<(), ChannelError> {
        self.stream.set_read_timeout(limit)?;
        self.stream.set_write_timeout(limit)?;
        Ok(())
    }

    /// User ID of the peer (`SO_PEERCRED`, as of connect time). A daemon in a container sees a caller outside its PID
    /// namespace as pid 0, which rustix's credential type cannot represent.
    pub fn peer_uid(&self) -> Result<u32, ChannelError> {
        use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
        let peer = getsockopt(&self.stream, PeerCredentials).map_err(std::io::Error::from)?;
        Ok(peer.uid())
    }

    /// Send a message without file descriptors.
    pub fn send<T: Serialize>(&mut self, message: &T) -> Result<(), ChannelError> {
        self.send_with_fds(message, &[])
    }

    /// Receive a message. Accompanying file descriptors are closed.
    pub fn recv<T: DeserializeOwned>(&mut self) -> Result<T, ChannelError> {
        Ok(self.recv_with_fds()?.0)
    }

    /// Receive a message and its file descriptors.
    pub fn recv_with_fds<T: DeserializeOwned>(&mut self) -> Result<(T, Vec<OwnedFd>), ChannelError> {
        let mut header = [0; 4];
        let (first, fds) = self.recv_first(&mut header)?;
        self.fill(&mut header[first..])?;
        let length = u32::from_be_bytes(header) as usize;
        if length > MAX_MESSAGE_LEN {
            return Err(ChannelError::TooLong { length });
        }
        // The buffer grows as bytes arrive, so that a four-byte header cannot allocate 16 MiB.
        let mut body = Vec::new();
        let taken = (&self.stream).take(length as u64).read_to_end(&mut body)?;
        if taken < length {
            return Err(ChannelError::Closed);
        }
        Ok((serde_json::from_slice(&body)?, fds))
    }

    /// Send a message with up to two file descriptors.
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
            // NOSIGNAL: a closed connection must be an error, not a SIGPIPE.
            rustix::net::sendmsg(&self.stream, &[IoSlice::new(&frame)], &mut control, SendFlags::NOSIGNAL)
        })?;
        // The rest follows without descriptors. Rust programs ignore SIGPIPE, so a plain write is safe.
        self.stream.write_all(&frame[sent..])?;
        Ok(())
    }

    /// Receive the first bytes of a message, at most the header, with its file descriptors. Returns the
    /// number of bytes.
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
