//! The machine that a call works on, and the few things about it that tests replace.

use ferroband_kernel::{Host, Root};
use std::time::Duration;

/// A machine to attach sandboxes on.
#[derive(Clone, Copy)]
pub struct Machine<'a> {
    /// Where our files, the socket and procfs are.
    pub root: &'a Root,
    /// Its InfiniBand. "The host" is the network namespace of the calling thread.
    pub host: &'a dyn Host,
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
        Self { root, host, patience: Patience::default(), stop: &|| false, watch: &|_| {} }
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
