//! One request to the kernel and its answers.

use super::wire::{self, Message};
use crate::Error;
use netlink_packet_core::{
    DecodeError, NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkBuffer,
    NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{SocketAddr, protocols::NETLINK_ROUTE};
use nix::errno::Errno;
use nix::libc::{MSG_PEEK, MSG_TRUNC};
use std::io;

/// Enough for every single answer; longer ones are measured first and the buffer grows.
const BUFFER: usize = 32 * 1024;
/// A dump that the kernel marks as torn by a concurrent change is asked for again, this often.
const DUMPS: usize = 16;
/// struct nlmsghdr, which stands before the TLVs of an acknowledgement (NETLINK_CAP_ACK leaves the rest out).
const HEADER: usize = 16;
/// NLMSGERR_ATTR_MSG of linux/netlink.h.
const WORDS: u16 = 1;

/// A bound NETLINK_ROUTE socket.
#[derive(Debug)]
pub(super) struct Socket {
    socket: netlink_sys::Socket,
    sequence: u32,
    buffer: Vec<u8>,
}

/// Why a request did not succeed, before it is known what it was about.
#[derive(Debug)]
pub(super) enum Failure {
    /// The kernel said no, perhaps with words.
    Kernel(Errno, Option<String>),
    Io(io::Error),
    Decode(DecodeError),
}

impl Failure {
    pub(super) fn errno(&self) -> Option<Errno> {
        match self {
            Self::Kernel(errno, _) => Some(*errno),
            Self::Io(_) | Self::Decode(_) => None,
        }
    }

    /// The error of a request that was to give an interface the name `name`. When the name is taken the kernel
    /// says EEXIST without words; when something else is in the way it uses words.
    pub(super) fn about_name(self, doing: impl Into<String>, interface: &str, name: &str) -> Error {
        match self {
            Self::Kernel(Errno::EEXIST, None) => Error::NameTaken { interface: name.to_owned() },
            other => other.about(doing, interface),
        }
    }

    pub(super) fn about(self, doing: impl Into<String>, interface: impl Into<String>) -> Error {
        match self {
            Self::Kernel(errno, message) => {
                Error::Refused { doing: doing.into(), interface: interface.into(), errno, message }
            }
            Self::Io(source) => Error::Socket { doing: "use", source },
            Self::Decode(source) => Error::Undecodable { interface: interface.into(), source },
        }
    }
}

/// What one received message means for the request under way.
enum Answer {
    Part(Message),
    End,
    Nothing,
}

impl Socket {
    pub(super) fn open() -> Result<Self, Error> {
        let open = || {
            let mut socket = netlink_sys::Socket::new(NETLINK_ROUTE)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            // Both since 4.12; without them there are only fewer words.
            let _ = socket.set_ext_ack(true);
            let _ = socket.set_cap_ack(true);
            Ok(socket)
        };
        match open() {
            Ok(socket) => Ok(Self { socket, sequence: 0, buffer: Vec::with_capacity(BUFFER) }),
            Err(source) => Err(Error::Socket { doing: "open", source }),
        }
    }

    /// Sends a request and waits until the kernel has done it. The answers, if it is a question.
    pub(super) fn request(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<Vec<Message>, Failure> {
        let mut answers = Vec::new();
        self.send(message, NLM_F_REQUEST | NLM_F_ACK | flags)?;
        self.receive(&mut answers)?;
        Ok(answers)
    }

    /// Asks for everything of a kind, until an answer comes that no change has torn.
    pub(super) fn dump(&mut self, message: RouteNetlinkMessage) -> Result<Vec<Message>, Failure> {
        for _ in 0..DUMPS {
            let mut answers = Vec::new();
            self.send(message.clone(), NLM_F_REQUEST | NLM_F_DUMP)?;
            if self.receive(&mut answers)? {
                return Ok(answers);
            }
        }
        Err(Failure::Kernel(Errno::EINTR, None))
    }

    fn send(&mut self, message: RouteNetlinkMessage, flags: u16) -> Result<(), Failure> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        header.sequence_number = self.sequence;
        let bytes = serialize(header, message);
        retry(|| self.socket.send(&bytes, 0)).map_err(Failure::Io).map(drop)
    }

    /// Collects until the acknowledgement or the end of the dump; false when the dump was torn.
    fn receive(&mut self, answers: &mut Vec<Message>) -> Result<bool, Failure> {
        let mut whole = true;
        loop {
            self.datagram().map_err(Failure::Io)?;
            let mut rest = self.buffer.as_slice();
            while !rest.is_empty() {
                let length = NetlinkBuffer::new_checked(rest).map_err(Failure::Decode)?.length() as usize;
                let (bytes, after) = rest.split_at(length.min(rest.len()));
                rest = after.get(length.next_multiple_of(4) - length..).unwrap_or_default();
                let message = NetlinkMessage::deserialize(bytes).map_err(Failure::Decode)?;
                if message.header.sequence_number != self.sequence {
                    continue;
                }
                whole &= message.header.flags & NLM_F_DUMP_INTR == 0;
                match answer(message)? {
                    Answer::Part(part) => answers.push(part),
                    Answer::Nothing => {}
                    Answer::End => return Ok(whole),
                }
            }
        }
    }

    /// The next datagram, whole, into the buffer.
    fn datagram(&mut self) -> io::Result<()> {
        let length = retry(|| {
            self.buffer.clear();
            self.socket.recv(&mut self.buffer, MSG_PEEK | MSG_TRUNC)
        })?;
        self.buffer.clear();
        self.buffer.reserve(length);
        retry(|| self.socket.recv(&mut self.buffer, 0)).map(drop)
    }
}

/// The bytes of a request.
pub(super) fn serialize(header: NetlinkHeader, message: RouteNetlinkMessage) -> Vec<u8> {
    let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

fn answer(message: NetlinkMessage<Message>) -> Result<Answer, Failure> {
    let flags = message.header.flags;
    match message.payload {
        NetlinkPayload::InnerMessage(part) => Ok(Answer::Part(part)),
        NetlinkPayload::Error(error) => match error.code {
            None => Ok(Answer::End),
            Some(code) => {
                let tlvs = if flags & NLM_F_ACK_TLVS != 0 { error.header.get(HEADER..) } else { None };
                Err(refusal(code.get(), tlvs.unwrap_or_default()))
            }
        },
        NetlinkPayload::Done(done) if done.code < 0 => Err(refusal(done.code, &done.extended_ack)),
        NetlinkPayload::Done(_) => Ok(Answer::End),
        NetlinkPayload::Overrun(_) => Err(Failure::Kernel(Errno::ENOBUFS, None)),
        _ => Ok(Answer::Nothing),
    }
}

fn refusal(code: i32, tlvs: &[u8]) -> Failure {
    let words = wire::attributes(tlvs).find(|(kind, _)| *kind == WORDS).map(|(_, value)| wire::text(value));
    Failure::Kernel(Errno::from_raw(code.saturating_neg()), words)
}

fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
