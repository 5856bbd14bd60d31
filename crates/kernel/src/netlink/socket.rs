//! One request to the kernel and its answers.

use super::failure::{Failure, Family};
use super::wire::{self, Message};
use crate::Error;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkBuffer, NetlinkHeader,
    NetlinkMessage, NetlinkPayload, NetlinkSerializable,
};
use netlink_sys::SocketAddr;
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

/// A bound netlink socket.
#[derive(Debug)]
pub(crate) struct Socket {
    family: Family,
    socket: netlink_sys::Socket,
    sequence: u32,
    buffer: Vec<u8>,
}

/// What one received message means for the request under way.
enum Answer {
    Part(Message),
    End,
    Nothing,
}

impl Socket {
    /// In the calling thread's network namespace, which it keeps.
    pub(crate) fn open(family: Family) -> Result<Self, Error> {
        let open = || {
            let mut socket = netlink_sys::Socket::new(family.protocol())?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            // Both since 4.12; without them there are only fewer words.
            let _ = socket.set_ext_ack(true);
            let _ = socket.set_cap_ack(true);
            Ok(socket)
        };
        match open() {
            Ok(socket) => Ok(Self { family, socket, sequence: 0, buffer: Vec::with_capacity(BUFFER) }),
            Err(source) => Err(family.failed("open", source)),
        }
    }

    /// Sends a request and waits until the kernel has done it. The answers, if it is a question.
    pub(crate) fn request(
        &mut self,
        message: impl NetlinkSerializable,
        flags: u16,
    ) -> Result<Vec<Message>, Failure> {
        let mut answers = Vec::new();
        self.send(&message, NLM_F_REQUEST | NLM_F_ACK | flags)?;
        self.receive(self.sequence, &mut answers)?;
        Ok(answers)
    }

    /// Sends requests that the kernel does all or none of, in one datagram. `last` is acknowledged; a refusal of any one
    /// comes before that. What closes the batch has no answer.
    pub(crate) fn batch(
        &mut self,
        first: &[(Message, u16)],
        last: (Message, u16),
        close: Message,
    ) -> Result<(), Failure> {
        let begin = self.sequence.wrapping_add(1);
        let acknowledged = (last.0, last.1 | NLM_F_ACK);
        let mut bytes = Vec::new();
        for (message, flags) in first.iter().chain([&acknowledged]) {
            self.sequence = self.sequence.wrapping_add(1);
            bytes.extend(self.numbered(message, NLM_F_REQUEST | flags));
        }
        bytes.extend(self.numbered(&close, NLM_F_REQUEST));
        retry(|| self.socket.send(&bytes, 0)).map_err(|error| Failure::Io(self.family, error))?;
        self.receive(begin, &mut Vec::new()).map(drop)
    }

    /// Asks for everything of a kind, until an answer comes that no change has torn.
    pub(crate) fn dump(&mut self, message: impl NetlinkSerializable) -> Result<Vec<Message>, Failure> {
        for _ in 0..DUMPS {
            let mut answers = Vec::new();
            self.send(&message, NLM_F_REQUEST | NLM_F_DUMP)?;
            if self.receive(self.sequence, &mut answers)? {
                return Ok(answers);
            }
        }
        Err(Failure::Kernel(Errno::EINTR, None))
    }

    fn send(&mut self, message: &impl NetlinkSerializable, flags: u16) -> Result<(), Failure> {
        self.sequence = self.sequence.wrapping_add(1);
        let bytes = self.numbered(message, flags);
        retry(|| self.socket.send(&bytes, 0)).map_err(|error| Failure::Io(self.family, error)).map(drop)
    }

    fn numbered(&self, message: &impl NetlinkSerializable, flags: u16) -> Vec<u8> {
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        header.sequence_number = self.sequence;
        serialize(header, message)
    }

    /// Collects until the acknowledgement or the end of the dump; false when the dump was torn. Answers to requests since
    /// `first` count, and the last one's ends it.
    fn receive(&mut self, first: u32, answers: &mut Vec<Message>) -> Result<bool, Failure> {
        let (mut whole, earlier) = (true, self.sequence.wrapping_sub(first));
        loop {
            self.datagram().map_err(|error| Failure::Io(self.family, error))?;
            let mut rest = self.buffer.as_slice();
            while !rest.is_empty() {
                let length = NetlinkBuffer::new_checked(rest).map_err(Failure::Decode)?.length() as usize;
                let (bytes, after) = rest.split_at(length.min(rest.len()));
                rest = after.get(length.next_multiple_of(4) - length..).unwrap_or_default();
                let message = NetlinkMessage::deserialize(bytes).map_err(Failure::Decode)?;
                let behind = self.sequence.wrapping_sub(message.header.sequence_number);
                if behind > earlier {
                    continue;
                }
                whole &= message.header.flags & NLM_F_DUMP_INTR == 0;
                match answer(message)? {
                    Answer::Part(part) => answers.push(part),
                    Answer::End if behind == 0 => return Ok(whole),
                    Answer::End | Answer::Nothing => {}
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

/// The bytes of a request: its header, and what it says.
pub(crate) fn serialize(header: NetlinkHeader, message: &impl NetlinkSerializable) -> Vec<u8> {
    let length = HEADER + message.buffer_len();
    let mut bytes = vec![0; length];
    let (head, body) = bytes.split_at_mut(HEADER);
    head[..4].copy_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_ne_bytes());
    head[4..6].copy_from_slice(&message.message_type().to_ne_bytes());
    head[6..8].copy_from_slice(&header.flags.to_ne_bytes());
    head[8..12].copy_from_slice(&header.sequence_number.to_ne_bytes());
    head[12..].copy_from_slice(&header.port_number.to_ne_bytes());
    message.serialize(body);
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
