//! Accepts calls whose `:authority` is the percent-encoded path of a socket.
//!
//! The kubelet's plugin watcher dials a bare path, for which grpc-go sends `%2Fvar%2Flib%2F…` as authority. The `http`
//! crate rejects that as an invalid authority, so the call would fail with PROTOCOL_ERROR before it reaches the server.
//! On a Unix socket the value has no meaning. It is replaced in the incoming header block itself (RFC 7541).
//!
//! ```text
//! kubelet ── frames ──► AuthorityRewriter ── HEADERS: `:authority` becomes localhost ──► tonic
//! ```
//!
//! A shorter value does not break the decoder's dynamic table: entries are counted from the newest, and the encoder
//! never references an entry that it has evicted.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tonic::transport::server::{Connected, UdsConnectInfo};

/// Length of the client connection preface (RFC 9113, 3.4).
const PREFACE_LENGTH: usize = 24;
const FRAME_HEADER_LENGTH: usize = 9;
const HEADERS: u8 = 0x1;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;
/// Index of `:authority` in the HPACK static table (RFC 7541, appendix A).
const AUTHORITY_INDEX: usize = 1;
/// The string `localhost` as an HPACK literal: its length of nine bytes, without Huffman encoding.
const LOCALHOST: &[u8] = b"\x09localhost";

/// A connection that replaces the `:authority` of every request with localhost.
#[derive(Debug)]
pub(super) struct AuthorityRewriter {
    stream: UnixStream,
    filter: Http2FrameFilter,
    ready: Vec<u8>,
}

impl AuthorityRewriter {
    pub(super) fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            filter: Http2FrameFilter { preface_left: PREFACE_LENGTH, frame: Vec::new() },
            ready: Vec::new(),
        }
    }
}

impl Connected for AuthorityRewriter {
    type ConnectInfo = UdsConnectInfo;

    fn connect_info(&self) -> UdsConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for AuthorityRewriter {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.ready.is_empty() {
            let mut room = [0; 4096];
            let mut read = ReadBuf::new(&mut room);
            ready!(Pin::new(&mut this.stream).poll_read(context, &mut read))?;
            if read.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            this.filter.rewrite(read.filled(), &mut this.ready);
        }
        let part = this.ready.len().min(into.remaining());
        into.put_slice(&this.ready[..part]);
        this.ready.drain(..part);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for AuthorityRewriter {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Splits the bytes from the client into HTTP/2 frames and rewrites the HEADERS frames.
#[derive(Debug)]
struct Http2FrameFilter {
    preface_left: usize,
    frame: Vec<u8>,
}

impl Http2FrameFilter {
    fn rewrite(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let (preface, frames) = bytes.split_at(self.preface_left.min(bytes.len()));
        self.preface_left -= preface.len();
        out.extend_from_slice(preface);
        self.frame.extend_from_slice(frames);
        while let Some(whole) = frame_length(&self.frame).filter(|whole| self.frame.len() >= *whole) {
            let rest = self.frame.split_off(whole);
            let frame = std::mem::replace(&mut self.frame, rest);
            out.extend(rewrite_authority(&frame).unwrap_or(frame));
        }
    }
}

fn frame_length(frame: &[u8]) -> Option<usize> {
    let [a, b, c, ..] = *frame else { return None };
    Some(FRAME_HEADER_LENGTH + u32::from_be_bytes([0, a, b, c]) as usize)
}

/// Replaces the authority in a HEADERS frame. Returns `None` if the frame has no authority or cannot be parsed.
fn rewrite_authority(frame: &[u8]) -> Option<Vec<u8>> {
    let (header, payload) = frame.split_at_checked(FRAME_HEADER_LENGTH)?;
    if header[3] != HEADERS {
        return None;
    }
    let set = |flag: u8| header[4] & flag != 0;
    let (padded, priority) = (usize::from(set(PADDED)), if set(PRIORITY) { 5 } else { 0 });
    let padding = if set(PADDED) { usize::from(*payload.first()?) } else { 0 };
    let end = payload.len().checked_sub(padding)?;
    let mut at = padded + priority;
    while at < end {
        let first = *payload.get(at)?;
        let (bits, literal) = match first {
            0x80.. => (7, false),
            0x40.. => (6, true),
            0x20.. => (5, false),
            _ => (4, true),
        };
        let (index, mut next) = decode_integer(payload, at, bits)?;
        if literal {
            if index == 0 {
                next = string_end(payload, next)?;
            }
            let value = next;
            next = string_end(payload, value)?;
            if index == AUTHORITY_INDEX {
                let payload = [&payload[..value], LOCALHOST, payload.get(next..)?].concat();
                let length = u32::try_from(payload.len()).ok()?.to_be_bytes();
                return Some([&length[1..], &header[3..], &payload].concat());
            }
        }
        at = next;
    }
    None
}

/// Decodes the HPACK integer at position `at`, whose prefix has `bits` bits (RFC 7541, 5.1). Returns the
/// integer and the position after it.
fn decode_integer(block: &[u8], at: usize, bits: u32) -> Option<(usize, usize)> {
    let most = (1usize << bits) - 1;
    let mut value = usize::from(*block.get(at)?) & most;
    let mut next = at + 1;
    if value == most {
        for shift in [0, 7, 14] {
            let byte = usize::from(*block.get(next)?);
            next += 1;
            value += (byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some((value, next));
            }
        }
        return None;
    }
    Some((value, next))
}

/// Returns the position after the HPACK string at `at`. The first bit of the string selects its encoding and
/// does not matter here (RFC 7541, 5.2).
fn string_end(block: &[u8], at: usize) -> Option<usize> {
    let (length, start) = decode_integer(block, at, 7)?;
    start.checked_add(length)
}
