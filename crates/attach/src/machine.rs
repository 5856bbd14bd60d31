//! The machine that a call works on, and the few things about it that tests replace.

use crate::Error;
use ferroband_kernel::{Error as KernelError, Hardware, Host, Root};
use std::path::Path;
use std::time::Duration;

/// A machine to attach sandboxes on.
#[derive(Clone, Copy)]
pub struct CniContext<'a> {
    /// Where our files, the socket and procfs are.
    pub root: &'a Root,
    /// Its InfiniBand. "The host" is the network namespace of the calling thread.
    pub host: &'a dyn Host,
    /// Its adapters, to hand out functions of. A machine without can make IPoIB children all the same.
    pub hardware: Option<&'a dyn Hardware>,
    /// The program that does what must not be broken off while the node daemon is away (see [`crate::Unbroken`]); this
    /// process does it itself if there is none.
    pub helper_program: Option<&'a Path>,
    /// How long to wait for others.
    pub timeouts: CallTimeouts,
    /// Whether somebody asked us to stop; asked between steps of an ADD.
    pub should_stop: &'a dyn Fn() -> bool,
    /// Called at each [`Point`]; a test that panics here stands for a `kill -9`.
    pub fail_point: &'a dyn Fn(FailPoint),
}

impl<'a> CniContext<'a> {
    /// A machine that nobody watches or stops.
    pub fn new(root: &'a Root, host: &'a dyn Host) -> Self {
        let (patience, stop, watch): (_, &dyn Fn() -> bool, &dyn Fn(FailPoint)) =
            (CallTimeouts::default(), &|| false, &|_| {});
        Self {
            root,
            host,
            hardware: None,
            helper_program: None,
            timeouts: patience,
            should_stop: stop,
            fail_point: watch,
        }
    }

    /// The same with adapters.
    pub fn with_hardware(root: &'a Root, hardware: &'a dyn Hardware) -> Self {
        Self { hardware: Some(hardware), ..Self::new(root, hardware) }
    }

    /// The adapters.
    pub(crate) fn require_hardware(&self) -> Result<&'a dyn Hardware, Error> {
        self.hardware.ok_or(Error::Kernel(KernelError::NoRdma))
    }
}

/// How long to wait for others.
#[derive(Clone, Copy, Debug)]
pub struct CallTimeouts {
    /// For a daemon that is restarting, when an ADD needs it. The runtime tries again afterwards.
    pub daemon_connect: Duration,
    /// For the daemon, when it can be told later: DEL.
    pub best_effort: Duration,
    /// For one answer of a daemon that has the connection: it may be waiting for the API server.
    pub daemon_reply: Duration,
    /// For another call of the same sandbox.
    pub lock: Duration,
    /// For IPv6 addresses to be found unique.
    pub ipv6_dad: Duration,
    /// For the interface of a function whose driver was just bound, or whose RDMA device was moved.
    pub device_ready: Duration,
}

impl Default for CallTimeouts {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            daemon_connect: seconds(10),
            best_effort: seconds(2),
            daemon_reply: seconds(60),
            lock: seconds(30),
            ipv6_dad: seconds(5),
            device_ready: seconds(10),
        }
    }
}

/// A moment at which something has just changed, here or elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailPoint {
    /// The journal was written.
    Journaled,
    /// The daemon answered.
    DaemonReplied,
    /// An interface was made in the host's namespace.
    InterfaceCreated,
    /// The link state or a GUID of a function was set.
    VfConfigured,
    /// A driver was bound anew, or an RDMA device moved.
    DeviceOpDone,
    /// It was moved into the sandbox.
    InterfaceMoved,
    /// It has its final name.
    InterfaceRenamed,
    /// A foreign plugin ran.
    PluginExecuted,
    /// Addresses and routes were set.
    AddressesSet,
    /// The default routes were set.
    RoutesSet,
    /// A step was undone.
    StepUndone,
    /// A debt was written down.
    ReleaseQueued,
    /// The journal was removed.
    JournalRemoved,
}
