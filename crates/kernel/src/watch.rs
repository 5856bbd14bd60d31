//! One way to hear that the hardware has changed, whether the kernel says so or a simulation.

use crate::route::{LinkEvent, LinkEvents};
use crate::uevent::{SUBSYSTEMS, Told, Uevents};
use crate::{Error, Link};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::collections::VecDeque;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Something happened to the hardware. It says where to look, not what is there now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
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
    Link(Box<Link>),
    /// An interface went.
    LinkGone(Box<Link>),
    /// Changes were missed; look at everything.
    Lost,
}

/// Where changes come from.
pub trait Source: AsFd + Send {
    /// Appends what happened since the last call; does not block. The descriptor is readable when there is
    /// something.
    fn read(&mut self, changes: &mut VecDeque<Change>) -> Result<(), Error>;
}

/// Changes of all sources, as one stream. Its descriptor is readable when there may be one, so an async
/// runtime can wait for it and then call [`Watch::poll`].
pub struct Watch {
    epoll: Epoll,
    sources: Vec<Box<dyn Source>>,
    pending: VecDeque<Change>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("sources", &self.sources.len()).field("pending", &self.pending).finish()
    }
}

impl Watch {
    /// What the kernel says: its events about devices, and those of this namespace's interfaces.
    pub fn kernel() -> Result<Self, Error> {
        Self::of(vec![Box::new(Uevents::here(&SUBSYSTEMS)?), Box::new(LinkEvents::here()?)])
    }

    /// What these sources say.
    pub fn of(sources: Vec<Box<dyn Source>>) -> Result<Self, Error> {
        let open = || {
            let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
            for source in &sources {
                epoll.add(source, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
            }
            Ok(epoll)
        };
        match open() {
            Ok(epoll) => Ok(Self { epoll, sources, pending: VecDeque::new() }),
            Err(errno) => Err(failed(errno)),
        }
    }

    /// The next change, if one has happened.
    pub fn poll(&mut self) -> Result<Option<Change>, Error> {
        if self.pending.is_empty() {
            for source in &mut self.sources {
                source.read(&mut self.pending)?;
            }
        }
        Ok(self.pending.pop_front())
    }

    /// The next change; nothing when none happens for so long.
    pub fn wait(&mut self, longest: Duration) -> Result<Option<Change>, Error> {
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
                Err(errno) => return Err(failed(errno)),
            }
        }
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }
}

impl Source for Uevents {
    fn read(&mut self, changes: &mut VecDeque<Change>) -> Result<(), Error> {
        changes.extend(Self::read(self)?.into_iter().map(|told| match told {
            Told::Event(event) => {
                Change::Device { action: event.action, subsystem: event.subsystem, path: event.path }
            }
            Told::Lost => Change::Lost,
        }));
        Ok(())
    }
}

impl Source for LinkEvents {
    fn read(&mut self, changes: &mut VecDeque<Change>) -> Result<(), Error> {
        changes.extend(Self::read(self)?.into_iter().map(|event| match event {
            LinkEvent::Changed(link) => Change::Link(Box::new(link)),
            LinkEvent::Gone(link) => Change::LinkGone(Box::new(link)),
            LinkEvent::Lost => Change::Lost,
        }));
        Ok(())
    }
}

fn failed(errno: Errno) -> Error {
    Error::Device { doing: "watch".to_owned(), device: "any".to_owned(), errno, message: None }
}
