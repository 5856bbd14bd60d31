//! Netlink families, requests and replies.

use super::attr::{self, NetlinkError, RawMessage};
use crate::Error;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkBuffer, NetlinkHeader,
    NetlinkMessage, NetlinkPayload, NetlinkSerializable,
};
use netlink_sys::SocketAddr;
use netlink_sys::protocols::{NETLINK_KOBJECT_UEVENT, NETLINK_NETFILTER, NETLINK_RDMA, NETLINK_ROUTE};
use nix::errno::Errno;
use nix::libc::{MSG_PEEK, MSG_TRUNC};
use std::io;

/// Initial size of the receive buffer, enough for most replies. `receive_datagram` enlarges it for longer ones.
const INITIAL_BUFFER: usize = 32 * 1024;
/// Maximum number of attempts to read a dump without an interruption by a concurrent change.
const MAX_DUMP_ATTEMPTS: usize = 16;
/// Length of struct nlmsghdr. In an error reply, the TLVs follow the header of the failed request, because
/// NETLINK_CAP_ACK omits the rest of the request.
const NLMSGHDR_LEN: usize = 16;
const NLMSGERR_ATTR_MSG: u16 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NetlinkFamily {
    Route,
    Rdma,
    Netfilter,
    Uevent,
}

impl NetlinkFamily {
    pub(crate) fn protocol(self) -> isize {
        match self {
            Self::Route => NETLINK_ROUTE,
            Self::Rdma => NETLINK_RDMA,
            Self::Netfilter => NETLINK_NETFILTER,
            Self::Uevent => NETLINK_KOBJECT_UEVENT,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Route => "route",
            Self::Rdma => "RDMA",
            Self::Netfilter => "netfilter",
            Self::Uevent => "uevent",
        }
    }

    pub(crate) fn socket_error(self, doing: &'static str, source: io::Error) -> Error {
        let unknown = source.raw_os_error() == Some(Errno::EPROTONOSUPPORT as i32);
        match self {
            Self::Rdma if unknown => Error::NoRdma,
            _ => Error::Socket { doing, family: self.name(), source },
        }
    }
}

#[derive(Debug)]
pub(crate) struct NetlinkSocket {
    family: NetlinkFamily,
    socket: netlink_sys::Socket,
    sequence: u32,
    buffer: Vec<u8>,
}

/// What a received message means for the current request.
enum NetlinkReply {
    Message(RawMessage),
    End,
    Ignored,
}

impl NetlinkSocket {
    /// Opens a socket in the network namespace of the calling thread. The socket keeps this namespace.
    pub(crate) fn open(family: NetlinkFamily) -> Result<Self, Error> {
        let open = || {
            let mut socket = netlink_sys::Socket::new(family.protocol())?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            // Errors are ignored: on a kernel before 4.12, which lacks NETLINK_EXT_ACK, errors merely have no
            // explanation.
            let _ = socket.set_ext_ack(true);
            let _ = socket.set_cap_ack(true);
            Ok(socket)
        };
        match open() {
            Ok(socket) => {
                Ok(Self { family, socket, sequence: 0, buffer: Vec::with_capacity(INITIAL_BUFFER) })
            }
            Err(source) => Err(family.socket_error("open", source)),
        }
    }

    /// Sends a request and waits for the acknowledgement. Returns the replies, if there are any.
    pub(crate) fn request(
        &mut self,
        message: impl NetlinkSerializable,
        flags: u16,
    ) -> Result<Vec<RawMessage>, NetlinkError> {
        let mut replies = Vec::new();
        self.send(&message, NLM_F_REQUEST | NLM_F_ACK | flags)?;
        self.receive(self.sequence, &mut replies)?;
        Ok(replies)
    }

    /// Sends requests in one datagram, which the kernel applies atomically. The kernel acknowledges `last`; if any
    /// request fails, its error arrives before that. `close` ends the batch and has no reply.
    pub(crate) fn send_batch(
        &mut self,
        first: &[(RawMessage, u16)],
        last: (RawMessage, u16),
        close: RawMessage,
    ) -> Result<(), NetlinkError> {
        let begin = self.sequence.wrapping_add(1);
        let acknowledged = (last.0, last.1 | NLM_F_ACK);
        let mut bytes = Vec::new();
        for (message, flags) in first.iter().chain([&acknowledged]) {
            self.sequence = self.sequence.wrapping_add(1);
            bytes.extend(self.serialize_numbered(message, NLM_F_REQUEST | flags));
        }
        bytes.extend(self.serialize_numbered(&close, NLM_F_REQUEST));
        retry_interrupted(|| self.socket.send(&bytes, 0))
            .map_err(|error| NetlinkError::Io(self.family, error))?;
        self.receive(begin, &mut Vec::new()).map(drop)
    }

    /// Requests a dump. If a concurrent change interrupts the dump, requests it again; returns EINTR after
    /// `MAX_DUMP_ATTEMPTS`.
    pub(crate) fn dump(
        &mut self,
        message: impl NetlinkSerializable,
    ) -> Result<Vec<RawMessage>, NetlinkError> {
        for _ in 0..MAX_DUMP_ATTEMPTS {
            let mut replies = Vec::new();
            self.send(&message, NLM_F_REQUEST | NLM_F_DUMP)?;
            if self.receive(self.sequence, &mut replies)? {
                return Ok(replies);
            }
        }
        Err(NetlinkError::Kernel(Errno::EINTR, None))
    }

    fn send(&mut self, message: &impl NetlinkSerializable, flags: u16) -> Result<(), NetlinkError> {
        self.sequence = self.sequence.wrapping_add(1);
        let bytes = self.serialize_numbered(message, flags);
        retry_interrupted(|| self.socket.send(&bytes, 0))
            .map_err(|error| NetlinkError::Io(self.family, error))
            .map(drop)
    }

    fn serialize_numbered(&self, message: &impl NetlinkSerializable, flags: u16) -> Vec<u8> {
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        header.sequence_number = self.sequence;
        serialize(header, message)
    }

    /// Receives replies until the acknowledgement or the end of the dump. Returns false if a concurrent change
    /// interrupted the dump. `first` is the sequence number of the first request: replies to earlier requests are
    /// skipped, and the end of the reply to the latest request ends the loop.
    fn receive(&mut self, first: u32, replies: &mut Vec<RawMessage>) -> Result<bool, NetlinkError> {
        let (mut complete, earlier) = (true, self.sequence.wrapping_sub(first));
        loop {
            self.receive_datagram().map_err(|error| NetlinkError::Io(self.family, error))?;
            let mut rest = self.buffer.as_slice();
            while !rest.is_empty() {
                let length =
                    NetlinkBuffer::new_checked(rest).map_err(NetlinkError::Decode)?.length() as usize;
                let (bytes, after) = rest.split_at(length.min(rest.len()));
                rest = after.get(length.next_multiple_of(4) - length..).unwrap_or_default();
                let message = NetlinkMessage::deserialize(bytes).map_err(NetlinkError::Decode)?;
                let behind = self.sequence.wrapping_sub(message.header.sequence_number);
                if behind > earlier {
                    continue;
                }
                complete &= message.header.flags & NLM_F_DUMP_INTR == 0;
                match classify_reply(message)? {
                    NetlinkReply::Message(part) => replies.push(part),
                    NetlinkReply::End if behind == 0 => return Ok(complete),
                    NetlinkReply::End | NetlinkReply::Ignored => {}
                }
            }
        }
    }

    /// Receives one complete datagram into the buffer.
    fn receive_datagram(&mut self) -> io::Result<()> {
        let length = retry_interrupted(|| {
            self.buffer.clear();
            self.socket.recv(&mut self.buffer, MSG_PEEK | MSG_TRUNC)
        })?;
        self.buffer.clear();
        self.buffer.reserve(length);
        retry_interrupted(|| self.socket.recv(&mut self.buffer, 0)).map(drop)
    }
}

/// Returns the bytes to send: struct nlmsghdr with the total length, followed by the message.
pub(crate) fn serialize(header: NetlinkHeader, message: &impl NetlinkSerializable) -> Vec<u8> {
    let length = NLMSGHDR_LEN + message.buffer_len();
    let mut bytes = vec![0; length];
    let (head, body) = bytes.split_at_mut(NLMSGHDR_LEN);
    head[..4].copy_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_ne_bytes());
    head[4..6].copy_from_slice(&message.message_type().to_ne_bytes());
    head[6..8].copy_from_slice(&header.flags.to_ne_bytes());
    head[8..12].copy_from_slice(&header.sequence_number.to_ne_bytes());
    head[12..].copy_from_slice(&header.port_number.to_ne_bytes());
    message.serialize(body);
    bytes
}

fn classify_reply(message: NetlinkMessage<RawMessage>) -> Result<NetlinkReply, NetlinkError> {
    let flags = message.header.flags;
    match message.payload {
        NetlinkPayload::InnerMessage(part) => Ok(NetlinkReply::Message(part)),
        NetlinkPayload::Error(error) => match error.code {
            None => Ok(NetlinkReply::End),
            Some(code) => {
                let tlvs = if flags & NLM_F_ACK_TLVS != 0 { error.header.get(NLMSGHDR_LEN..) } else { None };
                Err(kernel_error(code.get(), tlvs.unwrap_or_default()))
            }
        },
        NetlinkPayload::Done(done) if done.code < 0 => Err(kernel_error(done.code, &done.extended_ack)),
        NetlinkPayload::Done(_) => Ok(NetlinkReply::End),
        NetlinkPayload::Overrun(_) => Err(NetlinkError::Kernel(Errno::ENOBUFS, None)),
        _ => Ok(NetlinkReply::Ignored),
    }
}

fn kernel_error(code: i32, tlvs: &[u8]) -> NetlinkError {
    let words = attr::find(tlvs, NLMSGERR_ATTR_MSG).map(attr::text);
    NetlinkError::Kernel(Errno::from_raw(code.saturating_neg()), words)
}

fn retry_interrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
