//! The node daemon, seen from a CNI call.

use crate::message::{DaemonReply, DaemonRequest};
use crate::owed::PendingRelease;
use crate::socket::{Channel, ChannelError};
use crate::{CniContext, Error, FailPoint};
use ferroband_kernel::{Netns, Root};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often a daemon that is away is tried again.
const PAUSE: Duration = Duration::from_millis(50);

/// The daemon's socket.
pub fn socket_path(root: &Root) -> PathBuf {
    root.run("ferroband/cni.sock")
}

/// A connection to the daemon.
#[derive(Debug)]
pub(crate) struct NodeClient {
    channel: Channel,
    /// False once question and answer may be out of step.
    usable: bool,
}

impl NodeClient {
    /// Connect, trying again for at most `patience` while nobody listens.
    pub(crate) fn connect(machine: &CniContext<'_>, patience: Duration) -> Result<Self, Error> {
        let socket = socket_path(machine.root);
        let end = Instant::now() + patience;
        loop {
            match connect(&socket, patience) {
                Ok(stream) => {
                    let channel = Channel::from(stream);
                    channel.set_timeout(Some(machine.timeouts.daemon_reply))?;
                    return Ok(Self { channel, usable: true });
                }
                Err(source) if !is_unreachable(&source) || Instant::now() >= end => {
                    return Err(Error::DaemonUnavailable { socket, source });
                }
                Err(_) if (machine.should_stop)() => return Err(Error::Interrupted),
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Connect and ask the first question. A daemon that goes away in between is tried again, because nothing
    /// has been done yet. `held` becomes true when the daemon may have heard the question.
    pub(crate) fn connect_and_request(
        machine: &CniContext<'_>,
        owed: &PendingRelease,
        request: &DaemonRequest,
        netns: &Netns,
        held: &mut bool,
    ) -> Result<(Self, DaemonReply), Error> {
        let end = Instant::now() + machine.timeouts.daemon_connect;
        loop {
            let mut daemon = Self::connect(machine, end.saturating_duration_since(Instant::now()))?;
            // What an earlier call of this sandbox still owes must be told first: told later by the daemon's
            // own sweep, it would free what this call is given.
            let settled = match owed.exists(machine.root) {
                true => daemon.request(machine, &owed.to_request()).and_then(|_| owed.remove(machine.root)),
                false => Ok(()),
            };
            let asked = settled.and_then(|()| {
                *held = true;
                daemon.request_with_fds(machine, request, &[netns.fd()])
            });
            match asked {
                Err(Error::Channel { source }) if is_disconnected(&source) && Instant::now() < end => {
                    std::thread::sleep(PAUSE);
                }
                Err(error) => return Err(error),
                Ok(reply) => return Ok((daemon, reply)),
            }
        }
    }

    /// Ask, and wait for the answer.
    pub(crate) fn request(
        &mut self,
        machine: &CniContext<'_>,
        request: &DaemonRequest,
    ) -> Result<DaemonReply, Error> {
        self.request_with_fds(machine, request, &[])
    }

    /// Ask for something that is answered by [`Reply::Done`].
    pub(crate) fn request_done(
        &mut self,
        machine: &CniContext<'_>,
        request: &DaemonRequest,
    ) -> Result<(), Error> {
        match self.request(machine, request)? {
            DaemonReply::Done => Ok(()),
            _ => Err(Error::UnexpectedReply { wanted: "done" }),
        }
    }

    /// Whether the connection can be asked again.
    pub(crate) fn is_usable(&self) -> bool {
        self.usable
    }

    /// Ask, with descriptors for the daemon, and wait for the answer.
    pub(crate) fn request_with_fds(
        &mut self,
        machine: &CniContext<'_>,
        request: &DaemonRequest,
        fds: &[BorrowedFd<'_>],
    ) -> Result<DaemonReply, Error> {
        self.usable = false;
        self.channel.send_with_fds(request, fds)?;
        let reply = self.channel.recv()?;
        self.usable = true;
        (machine.fail_point)(FailPoint::DaemonReplied);
        match reply {
            DaemonReply::Fault(fault) => Err(Error::Reported(fault)),
            reply => Ok(reply),
        }
    }
}

/// Tell the daemon that a sandbox or an interface is gone; write it down as owed if that is not possible now.
///
/// `daemon` is a connection that may still be open.
pub(crate) fn release_or_queue(
    machine: &CniContext<'_>,
    owed: &PendingRelease,
    daemon: Option<NodeClient>,
) -> Result<(), Error> {
    let request = owed.to_request();
    let told = match daemon.filter(NodeClient::is_usable) {
        Some(daemon) => Ok(daemon),
        None => NodeClient::connect(machine, Duration::ZERO),
    };
    let told = told.and_then(|mut daemon| {
        daemon.channel.set_timeout(Some(machine.timeouts.best_effort))?;
        daemon.request_done(machine, &request)
    });
    match told {
        Ok(()) => owed.remove(machine.root),
        Err(error) => {
            eprintln!("ferroband: release of container {} is owed to the daemon: {error}", owed.container);
            owed.write(machine.root)?;
            (machine.fail_point)(FailPoint::ReleaseQueued);
            Ok(())
        }
    }
}

/// Connect to a stream socket. The limit matters when the daemon has hung and its queue is full: connect(2)
/// waits for as long as a send may (unix(7) has no word on it; `unix_stream_connect` in net/unix/af_unix.c).
fn connect(path: &Path, limit: Duration) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // Zero would mean without end.
    let limit = limit.max(Duration::from_millis(200));
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(limit))?;
    rustix::net::connect(&socket, &address)?;
    Ok(UnixStream::from(socket))
}

fn is_unreachable(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, NotFound, WouldBlock};
    matches!(error.kind(), NotFound | ConnectionRefused | WouldBlock | Interrupted)
}

/// Whether the daemon went away while it had our connection.
fn is_disconnected(error: &ChannelError) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};
    match error {
        ChannelError::Closed => true,
        ChannelError::Socket(error) => matches!(error.kind(), BrokenPipe | ConnectionReset),
        _ => false,
    }
}
