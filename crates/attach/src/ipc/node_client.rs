//! Client of the node daemon's socket.

use crate::ipc::message::{DaemonReply, DaemonRequest};
use crate::ipc::socket::{Channel, ChannelError};
use crate::protocol::{CniContext, Error, FailPoint};
use ferroband_kernel::{Netns, Root};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Delay between connection attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// Path of the socket on which the node daemon serves CNI calls.
pub fn socket_path(root: &Root) -> PathBuf {
    root.run("ferroband/cni.sock")
}

/// Path of the file that the node daemon leaves when it starts. The directory of the socket is empty after a reboot; this
/// file stays until Ferroband is uninstalled.
pub fn daemon_mark(root: &Root) -> PathBuf {
    root.state("daemon")
}

/// Whether the node has, or had, a daemon, without which P_Keys and GUIDs must not be used.
pub(crate) fn is_daemon_installed(root: &Root) -> bool {
    daemon_mark(root).exists() || socket_path(root).exists()
}

/// A connection to the node daemon's CNI socket, for the requests of one CNI call.
#[derive(Debug)]
pub(crate) struct NodeClient {
    channel: Channel,
    /// False while a request has no reply yet. If sending or receiving fails, it stays false, because the
    /// reply to the failed request could be taken for that of the next one.
    usable: bool,
}

impl NodeClient {
    /// Connect, retrying for at most `timeout` while the daemon does not accept connections.
    pub(crate) fn connect(context: &CniContext<'_>, timeout: Duration) -> Result<Self, Error> {
        let socket = socket_path(context.root);
        let end = Instant::now() + timeout;
        loop {
            match connect(&socket, timeout) {
                Ok(stream) => {
                    let channel = Channel::from(stream);
                    channel.set_timeout(Some(context.timeouts.daemon_reply))?;
                    return Ok(Self { channel, usable: true });
                }
                Err(source) if !is_unreachable(&source) || Instant::now() >= end => {
                    return Err(Error::DaemonUnavailable { socket, source });
                }
                Err(_) if (context.should_stop)() => return Err(Error::Interrupted),
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Connect, run `first` and send the request. If the daemon disconnects before it replies, retry, because this
    /// process has not changed anything yet. Sets `needs_release` once the daemon may have received the
    /// request.
    pub(crate) fn connect_and_request(
        context: &CniContext<'_>,
        first: impl Fn(&mut Self) -> Result<(), Error>,
        request: &DaemonRequest,
        netns: &Netns,
        needs_release: &mut bool,
    ) -> Result<(Self, DaemonReply), Error> {
        let end = Instant::now() + context.timeouts.daemon_connect;
        loop {
            let mut daemon = Self::connect(context, end.saturating_duration_since(Instant::now()))?;
            let reply = first(&mut daemon).and_then(|()| {
                *needs_release = true;
                daemon.request_with_fds(context, request, &[netns.fd()])
            });
            match reply {
                Err(Error::Channel { source }) if is_disconnected(&source) && Instant::now() < end => {
                    std::thread::sleep(PAUSE);
                }
                Err(error) => return Err(error),
                Ok(reply) => return Ok((daemon, reply)),
            }
        }
    }

    /// Send a request and wait for the reply. A [`DaemonReply::Fault`] is returned as an error.
    pub(crate) fn request(
        &mut self,
        context: &CniContext<'_>,
        request: &DaemonRequest,
    ) -> Result<DaemonReply, Error> {
        self.request_with_fds(context, request, &[])
    }

    /// Send a request whose reply is [`DaemonReply::Done`].
    pub(crate) fn request_done(
        &mut self,
        context: &CniContext<'_>,
        request: &DaemonRequest,
    ) -> Result<(), Error> {
        match self.request(context, request)? {
            DaemonReply::Done => Ok(()),
            _ => Err(Error::UnexpectedReply { expected: "an acknowledgement" }),
        }
    }

    /// Set the limit for one reply.
    pub(crate) fn set_timeout(&self, limit: Duration) -> Result<(), Error> {
        Ok(self.channel.set_timeout(Some(limit))?)
    }

    /// Whether another request can be sent. False after a request that got no reply.
    pub(crate) fn is_usable(&self) -> bool {
        self.usable
    }

    /// Like [`Self::request`], and passes the open file descriptors `fds` to the daemon.
    pub(crate) fn request_with_fds(
        &mut self,
        context: &CniContext<'_>,
        request: &DaemonRequest,
        fds: &[BorrowedFd<'_>],
    ) -> Result<DaemonReply, Error> {
        self.usable = false;
        self.channel.send_with_fds(request, fds)?;
        let reply = self.channel.recv()?;
        self.usable = true;
        (context.fail_point)(FailPoint::DaemonReplied);
        match reply {
            DaemonReply::Fault(fault) => Err(Error::Reported(fault)),
            reply => Ok(reply),
        }
    }
}

/// Connect to a stream socket. The limit matters when the daemon hangs and its accept queue is full:
/// connect(2) waits for the send timeout (not documented in unix(7), see `unix_stream_connect` in
/// net/unix/af_unix.c).
fn connect(path: &Path, limit: Duration) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // A send timeout of zero would mean no timeout, so use at least 200 ms.
    let limit = limit.max(Duration::from_millis(200));
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(limit))?;
    rustix::net::connect(&socket, &address)?;
    Ok(UnixStream::from(socket))
}

fn is_unreachable(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, NotFound, WouldBlock};
    matches!(error.kind(), NotFound | ConnectionRefused | WouldBlock | Interrupted)
}

/// Whether the daemon closed an established connection.
fn is_disconnected(error: &ChannelError) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};
    match error {
        ChannelError::Closed => true,
        ChannelError::Socket(error) => matches!(error.kind(), BrokenPipe | ConnectionReset),
        _ => false,
    }
}
