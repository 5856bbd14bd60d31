//! The context of a CNI call: the node that it changes, and the parts that tests replace.

use crate::protocol::Error;
use ferroband_kernel::{Error as KernelError, Hardware, Host, Root};
use std::path::Path;
use std::time::Duration;

/// The node on which sandboxes are attached, with timeouts and hooks.
#[derive(Clone, Copy)]
pub struct CniContext<'a> {
    /// Root of Ferroband's files, the daemon's socket and procfs.
    pub root: &'a Root,
    /// Access to IPoIB. "The host" is the network namespace of the calling thread.
    pub host: &'a dyn Host,
    /// Access to the adapters and their functions. IPoIB children can be created without it.
    pub hardware: Option<&'a dyn Hardware>,
    /// Program that performs device operations while the node daemon is unavailable (see `DeviceOp`). If
    /// absent, this process performs them itself.
    pub helper_program: Option<&'a Path>,
    pub timeouts: CallTimeouts,
    /// Whether a termination signal has arrived; checked between the steps of an ADD.
    pub should_stop: &'a dyn Fn() -> bool,
    /// Called at each [`FailPoint`]. A test that panics here simulates a `kill -9`.
    pub fail_point: &'a dyn Fn(FailPoint),
}

impl<'a> CniContext<'a> {
    /// A context without adapters, signals or fail points.
    pub fn new(root: &'a Root, host: &'a dyn Host) -> Self {
        let (timeouts, should_stop, fail_point): (_, &dyn Fn() -> bool, &dyn Fn(FailPoint)) =
            (CallTimeouts::default(), &|| false, &|_| {});
        Self { root, host, hardware: None, helper_program: None, timeouts, should_stop, fail_point }
    }

    /// Like [`Self::new`], with adapters.
    pub fn with_hardware(root: &'a Root, hardware: &'a dyn Hardware) -> Self {
        Self { hardware: Some(hardware), ..Self::new(root, hardware) }
    }

    /// Returns the adapters, or an error if the context has none.
    pub(crate) fn require_hardware(&self) -> Result<&'a dyn Hardware, Error> {
        self.hardware.ok_or(Error::Kernel(KernelError::NoRdma))
    }
}

/// How long a CNI call waits for other processes and for the kernel.
#[derive(Clone, Copy, Debug)]
pub struct CallTimeouts {
    /// How long an ADD tries to connect to a daemon that is restarting. After that the ADD fails, and the
    /// runtime retries it.
    pub daemon_connect: Duration,
    /// Limit for connecting to the daemon or taking a lock if the work can be retried later, as in DEL and
    /// GC.
    pub best_effort: Duration,
    /// Limit for one reply of the daemon, which may itself be waiting for the API server.
    pub daemon_reply: Duration,
    /// Limit for taking a lock that another call of the same sandbox or device holds.
    pub lock: Duration,
    /// Limit for IPv6 duplicate address detection. After it the addresses are used anyway.
    pub ipv6_dad: Duration,
    /// Limit for the interface of a function to appear after a driver bind or a move of its RDMA device.
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

/// A point right after a change, where tests simulate a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailPoint {
    /// The journal, or the lease of a virtual function, was written.
    Journaled,
    DaemonReplied,
    /// An interface was created in the host namespace.
    InterfaceCreated,
    /// The link state or a GUID of a virtual function was set.
    VfConfigured,
    /// A driver was rebound, or an RDMA device moved.
    DeviceOpDone,
    /// An interface was moved into the sandbox or back to the host.
    InterfaceMoved,
    /// An interface in the sandbox got its final name.
    InterfaceRenamed,
    /// The ADD or DEL of a foreign plugin succeeded.
    PluginExecuted,
    /// Addresses and routes were set.
    AddressesSet,
    /// The default routes or the routes of a coordinator step were set.
    RoutesSet,
    /// A step was undone, in full or in part.
    StepUndone,
    /// A pending release was written to disk.
    ReleaseQueued,
    /// A pending status was written.
    StatusQueued,
    /// The journal was removed, at the end of a DEL or a rollback.
    JournalRemoved,
}
