//! One way to hear that the hardware has changed, whether the kernel says so or a simulation.

use crate::rtnetlink::{LinkEvent, LinkEventSocket};
use crate::uevent::{SUBSYSTEMS, UeventItem, UeventSocket};
use crate::{Error, Link};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::collections::VecDeque;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Something happened to the hardware. It says where to look, not what is there now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HardwareEvent {
    /// A device came, went or changed.
    Device {
        /// `add`, `remove`, `change`, `bind`, `unbind`, `move`, `online`, `offline`.
        action: String,
        /// `pci`, `net`, `infiniband`, `infiniband_verbs`, `infiniband_mad`.
        subsystem: String,
        /// Its path in sysfs, from `/devices`.
        path: String,
    },
    /// An interface changed: its name, its flags or its carrier.
    LinkChanged(Box<Link>),
    /// An interface went.
    LinkRemoved(Box<Link>),
    /// Changes were missed; look at everything.
    Lost,
}

/// Where changes come from.
pub trait EventSource: AsFd + Send {
    /// Appends what happened since the last call; does not block. The descriptor is readable when there is
    /// something.
    fn read(&mut self, changes: &mut VecDeque<HardwareEvent>) -> Result<(), Error>;
}

/// Changes of all sources, as one stream. Its descriptor is readable when there may be one, so an async
/// runtime can wait for it and then call [`Watch::poll`].
pub struct HardwareWatch {
    epoll: Epoll,
    sources: Vec<Box<dyn EventSource>>,
    pending: VecDeque<HardwareEvent>,
}

impl fmt::Debug for HardwareWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("sources", &self.sources.len()).field("pending", &self.pending).finish()
    }
}

impl HardwareWatch {
    /// What the kernel says: its events about devices, and those of this namespace's interfaces.
    pub fn from_kernel() -> Result<Self, Error> {
        Self::from_sources(vec![
            Box::new(UeventSocket::open(&SUBSYSTEMS)?),
            Box::new(LinkEventSocket::open()?),
        ])
    }

    /// What these sources say.
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

    /// The next change, if one has happened.
    pub fn poll(&mut self) -> Result<Option<HardwareEvent>, Error> {
        if self.pending.is_empty() {
            for source in &mut self.sources {
                source.read(&mut self.pending)?;
            }
        }
        Ok(self.pending.pop_front())
    }

    /// The next change; nothing when none happens for so long.
    pub fn wait(&mut self, longest: Duration) -> Result<Option<HardwareEvent>, Error> {
        let until = Instant::now() + longest;
        loop {
            if let Some(change) = self.poll()? {
                return Ok(Some(change));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            // Rounded up, so that the last millisecond is not spent spinning.
            let left = left.as_millis().saturating_add(1).min(60_000);
            let timeout = EpollTimeout::from(u16::try_from(left).unwrap_or(u16::MAX));
            match self.epoll.wait(&mut [EpollEvent::empty()], timeout) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => return Err(watch_error(errno)),
            }
        }
    }
}

impl AsFd for HardwareWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }
}

impl EventSource for UeventSocket {
    fn read(&mut self, changes: &mut VecDeque<HardwareEvent>) -> Result<(), Error> {
        changes.extend(Self::read(self)?.into_iter().map(|told| match told {
            UeventItem::Event(event) => {
                HardwareEvent::Device { action: event.action, subsystem: event.subsystem, path: event.path }
            }
            UeventItem::Lost => HardwareEvent::Lost,
        }));
        Ok(())
    }
}

impl EventSource for LinkEventSocket {
    fn read(&mut self, changes: &mut VecDeque<HardwareEvent>) -> Result<(), Error> {
        changes.extend(Self::read(self)?.into_iter().map(|event| match event {
            LinkEvent::Changed(link) => HardwareEvent::LinkChanged(Box::new(link)),
            LinkEvent::Removed(link) => HardwareEvent::LinkRemoved(Box::new(link)),
            LinkEvent::Lost => HardwareEvent::Lost,
        }));
        Ok(())
    }
}

fn watch_error(errno: Errno) -> Error {
    Error::DeviceRequest { doing: "watch".to_owned(), device: "any".to_owned(), errno, message: None }
}
