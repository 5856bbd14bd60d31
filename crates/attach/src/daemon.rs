//! The node daemon, seen from a CNI call.

use crate::message::{Reply, Request};
use crate::owed::Owed;
use crate::socket::{Channel, ChannelError};
use crate::{Error, Machine, Point};
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
pub(crate) struct Daemon {
    channel: Channel,
    /// False once question and answer may be out of step.
    usable: bool,
}

impl Daemon {
    /// Connect, trying again for at most `patience` while nobody listens.
    pub(crate) fn reach(machine: &Machine<'_>, patience: Duration) -> Result<Self, Error> {
        let socket = socket_path(machine.root);
        let end = Instant::now() + patience;
        loop {
            match connect(&socket, patience) {
                Ok(stream) => {
                    let channel = Channel::from(stream);
                    channel.set_patience(Some(machine.patience.answer))?;
                    return Ok(Self { channel, usable: true });
                }
                Err(source) if !is_away(&source) || Instant::now() >= end => {
                    return Err(Error::DaemonAway { socket, source });
                }
                Err(_) if (machine.stop)() => return Err(Error::Interrupted),
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Connect and ask the first question. A daemon that goes away in between is tried again, because nothing
    /// has been done yet. `held` becomes true when the daemon may have heard the question.
    pub(crate) fn open(
        machine: &Machine<'_>,
        owed: &Owed,
        request: &Request,
        netns: &Netns,
        held: &mut bool,
    ) -> Result<(Self, Reply), Error> {
        let end = Instant::now() + machine.patience.daemon;
        loop {
            let mut daemon = Self::reach(machine, end.saturating_duration_since(Instant::now()))?;
            // What an earlier call of this sandbox still owes must be told first: told later by the daemon's
            // own sweep, it would free what this call is given.
            let settled = match owed.stands(machine.root) {
                true => daemon.ask(machine, &owed.request()).and_then(|_| owed.forget(machine.root)),
                false => Ok(()),
            };
            let asked = settled.and_then(|()| {
                *held = true;
                daemon.ask_with(machine, request, &[netns.fd()])
            });
            match asked {
                Err(Error::Channel { source }) if is_gone(&source) && Instant::now() < end => {
                    std::thread::sleep(PAUSE);
                }
                Err(error) => return Err(error),
                Ok(reply) => return Ok((daemon, reply)),
            }
        }
    }

    /// Ask, and wait for the answer.
    pub(crate) fn ask(&mut self, machine: &Machine<'_>, request: &Request) -> Result<Reply, Error> {
        self.ask_with(machine, request, &[])
    }

    /// Ask for something that is answered by [`Reply::Done`].
    pub(crate) fn tell(&mut self, machine: &Machine<'_>, request: &Request) -> Result<(), Error> {
        match self.ask(machine, request)? {
            Reply::Done => Ok(()),
            _ => Err(Error::Unexpected { wanted: "done" }),
        }
    }

    /// Whether the connection can be asked again.
    pub(crate) fn is_usable(&self) -> bool {
        self.usable
    }

    /// Ask, with descriptors for the daemon, and wait for the answer.
    pub(crate) fn ask_with(
        &mut self,
        machine: &Machine<'_>,
        request: &Request,
        fds: &[BorrowedFd<'_>],
    ) -> Result<Reply, Error> {
        self.usable = false;
        self.channel.send_with_fds(request, fds)?;
        let reply = self.channel.recv()?;
        self.usable = true;
        (machine.watch)(Point::Answered);
        match reply {
            Reply::Fault(fault) => Err(Error::Told(fault)),
            reply => Ok(reply),
        }
    }
}

/// Tell the daemon that a sandbox or an interface is gone; write it down as owed if that is not possible now.
///
/// `daemon` is a connection that may still be open.
pub(crate) fn release(machine: &Machine<'_>, owed: &Owed, daemon: Option<Daemon>) -> Result<(), Error> {
    let request = owed.request();
    let told = match daemon.filter(Daemon::is_usable) {
        Some(daemon) => Ok(daemon),
        None => Daemon::reach(machine, Duration::ZERO),
    };
    let told = told.and_then(|mut daemon| {
        daemon.channel.set_patience(Some(machine.patience.quick))?;
        daemon.tell(machine, &request)
    });
    match told {
        Ok(()) => owed.forget(machine.root),
        Err(error) => {
            eprintln!("ferroband: release of container {} is owed to the daemon: {error}", owed.container);
            owed.write(machine.root)?;
            (machine.watch)(Point::Owed);
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

fn is_away(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, NotFound, WouldBlock};
    matches!(error.kind(), NotFound | ConnectionRefused | WouldBlock | Interrupted)
}

/// Whether the daemon went away while it had our connection.
fn is_gone(error: &ChannelError) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};
    match error {
        ChannelError::Closed => true,
        ChannelError::Socket(error) => matches!(error.kind(), BrokenPipe | ConnectionReset),
        _ => false,
    }
}
