//! The machine that a call works on, and the few things about it that tests replace.

use crate::Error;
use ferroband_kernel::{Error as KernelError, Hardware, Host, Root};
use std::path::Path;
use std::time::Duration;

/// A machine to attach sandboxes on.
#[derive(Clone, Copy)]
pub struct Machine<'a> {
    /// Where our files, the socket and procfs are.
    pub root: &'a Root,
    /// Its InfiniBand. "The host" is the network namespace of the calling thread.
    pub host: &'a dyn Host,
    /// Its adapters, to hand out functions of. A machine without can make IPoIB children all the same.
    pub hardware: Option<&'a dyn Hardware>,
    /// The program that does what must not be broken off while the node daemon is away (see [`crate::Unbroken`]); this
    /// process does it itself if there is none.
    pub detached: Option<&'a Path>,
    /// How long to wait for others.
    pub patience: Patience,
    /// Whether somebody asked us to stop; asked between steps of an ADD.
    pub stop: &'a dyn Fn() -> bool,
    /// Called at each [`Point`]; a test that panics here stands for a `kill -9`.
    pub watch: &'a dyn Fn(Point),
}

impl<'a> Machine<'a> {
    /// A machine that nobody watches or stops.
    pub fn new(root: &'a Root, host: &'a dyn Host) -> Self {
        let (patience, stop, watch): (_, &dyn Fn() -> bool, &dyn Fn(Point)) =
            (Patience::default(), &|| false, &|_| {});
        Self { root, host, hardware: None, detached: None, patience, stop, watch }
    }

    /// The same with adapters.
    pub fn with_hardware(root: &'a Root, hardware: &'a dyn Hardware) -> Self {
        Self { hardware: Some(hardware), ..Self::new(root, hardware) }
    }

    /// The adapters.
    pub(crate) fn adapters(&self) -> Result<&'a dyn Hardware, Error> {
        self.hardware.ok_or(Error::Kernel(KernelError::NoRdma))
    }
}

/// How long to wait for others.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For a daemon that is restarting, when an ADD needs it. The runtime tries again afterwards.
    pub daemon: Duration,
    /// For the daemon, when it can be told later: DEL.
    pub quick: Duration,
    /// For one answer of a daemon that has the connection: it may be waiting for the API server.
    pub answer: Duration,
    /// For another call of the same sandbox.
    pub lock: Duration,
    /// For IPv6 addresses to be found unique.
    pub unique: Duration,
    /// For the interface of a function whose driver was just bound, or whose RDMA device was moved.
    pub device: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            daemon: seconds(10),
            quick: seconds(2),
            answer: seconds(60),
            lock: seconds(30),
            unique: seconds(5),
            device: seconds(10),
        }
    }
}

/// A moment at which something has just changed, here or elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// The journal was written.
    Journaled,
    /// The daemon answered.
    Answered,
    /// An interface was made in the host's namespace.
    Made,
    /// The link state or a GUID of a function was set.
    Set,
    /// A driver was bound anew, or an RDMA device moved.
    Unbroken,
    /// It was moved into the sandbox.
    Moved,
    /// It has its final name.
    Named,
    /// A foreign plugin ran.
    Executed,
    /// Addresses and routes were set.
    Addressed,
    /// The default routes were set.
    Routed,
    /// A step was undone.
    Undone,
    /// A debt was written down.
    Owed,
    /// The journal was removed.
    Forgotten,
}
