//! A stream of hardware events from the kernel or a simulation.

use crate::netlink::{Listener, ListenerRead};
use crate::rtnetlink::LinkEventSocket;
use crate::uevent::{SUBSYSTEMS, UeventSocket};
use crate::{Error, Link};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::collections::VecDeque;
use std::fmt;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// A hardware event. It does not contain the complete new state, but tells the receiver what to read again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HardwareEvent {
    /// A device was added, removed or changed.
    Device {
        /// One of `add`, `remove`, `change`, `bind`, `unbind`, `move`, `online`, `offline`.
        action: String,
        /// One of `pci`, `net`, `infiniband`, `infiniband_verbs`, `infiniband_mad`.
        subsystem: String,
        /// Path in sysfs, starting with `/devices`.
        path: String,
    },
    /// An interface was added, or its name, flags or carrier changed.
    LinkChanged(Box<Link>),
    /// An interface was deleted or moved to another namespace.
    LinkRemoved(Box<Link>),
    /// Events were lost; read the complete state again.
    Lost,
}

pub trait EventSource: AsFd + Send {
    /// Appends all available events to `events` without blocking. The descriptor is readable when events are
    /// available.
    fn read(&mut self, events: &mut VecDeque<HardwareEvent>) -> Result<(), Error>;
}

/// Events of all sources as one stream.
pub struct HardwareWatch {
    epoll: Epoll,
    sources: Vec<Box<dyn EventSource>>,
    pending: VecDeque<HardwareEvent>,
}

impl fmt::Debug for HardwareWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HardwareWatch")
            .field("sources", &self.sources.len())
            .field("pending", &self.pending)
            .finish()
    }
}

impl HardwareWatch {
    /// A watch on the kernel's events: uevents, and link events of the current network namespace.
    pub fn from_kernel() -> Result<Self, Error> {
        Self::from_sources(vec![
            Box::new(UeventSocket::open(&SUBSYSTEMS)?),
            Box::new(LinkEventSocket::open()?),
        ])
    }

    /// A watch on the events of all `sources`, for example of simulated hardware.
    pub fn from_sources(sources: Vec<Box<dyn EventSource>>) -> Result<Self, Error> {
        let open = || {
            let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
            for source in &sources {
                epoll.add(source, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
            }
            Ok(epoll)
        };
        match open() {
            Ok(epoll) => Ok(Self { epoll, sources, pending: VecDeque::new() }),
            Err(errno) => Err(watch_error(errno)),
        }
    }

    /// Returns the next event without blocking; `None` if no event is available.
    pub fn poll(&mut self) -> Result<Option<HardwareEvent>, Error> {
        if self.pending.is_empty() {
            for source in &mut self.sources {
                source.read(&mut self.pending)?;
            }
        }
        Ok(self.pending.pop_front())
    }

    /// Waits for the next event; returns `None` after the timeout.
    pub fn wait(&mut self, timeout: Duration) -> Result<Option<HardwareEvent>, Error> {
        let until = Instant::now() + timeout;
        loop {
            if let Some(event) = self.poll()? {
                return Ok(Some(event));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            // The timeout is rounded up to avoid a busy loop in the last millisecond.
            let left = left.as_millis().saturating_add(1).min(60_000);
            let epoll_timeout = EpollTimeout::from(u16::try_from(left).unwrap_or(u16::MAX));
            match self.epoll.wait(&mut [EpollEvent::empty()], epoll_timeout) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => return Err(watch_error(errno)),
            }
        }
    }
}

/// Reads all datagrams of `listener` without blocking and appends the events that they contain.
pub(crate) fn read_listener<E: IntoIterator<Item = HardwareEvent>>(
    listener: &mut Listener,
    events: &mut VecDeque<HardwareEvent>,
    decode: impl Fn(&[u8]) -> E,
) -> Result<(), Error> {
    loop {
        match listener.next()? {
            ListenerRead::Empty => return Ok(()),
            ListenerRead::Lost => events.push_back(HardwareEvent::Lost),
            ListenerRead::Datagram(datagram) => events.extend(decode(datagram)),
        }
    }
}

fn watch_error(errno: Errno) -> Error {
    Error::DeviceRequest { doing: "watch".to_owned(), device: "(all)".to_owned(), errno, message: None }
}
