//! The interface between CNI calls and partition management.
//!
//! ```text
//! plan built ── begin_add ──▶ starts to make the pod's ports members
//! interfaces exist ── wait_until_member ──▶ completes when the ports' P_Key tables contain their keys
//! sandbox gone ── remove_sandbox ──▶ removes the memberships
//! ```

use ferroband_model::{Fault, Guid, PodPartitionRequest, PodRef};
use futures::future::BoxFuture;

/// The ports of one sandbox and their partitions. A pod can have several sandboxes at a time.
#[derive(Clone, Copy, Debug)]
pub struct SandboxPartitions<'a> {
    /// The sandbox's container ID.
    pub container: &'a str,
    pub pod: &'a PodRef,
    pub requests: &'a [PodPartitionRequest],
}

/// Makes the ports of pods members of their partitions.
pub trait PartitionMembership: Send + Sync {
    /// Starts to make the sandbox's ports members of their partitions. Returns whether the CNI plugin must wait
    /// for the memberships before it sends any packet on the interfaces. A fault rejects the pod before
    /// anything is set up. Called on a thread that may block.
    fn begin_add(&self, sandbox: SandboxPartitions<'_>) -> Result<bool, Fault>;

    /// Completes when the P_Key table of every port contains the P_Key of its partition. The interfaces
    /// exist, but have no addresses yet. `guids` are the ports' GUIDs that the CNI plugin reports, each with the
    /// position of its attachment. A timeout returns a fault with the CNI code "try again later".
    fn wait_until_member<'a>(
        &'a self,
        sandbox: SandboxPartitions<'a>,
        guids: &'a [(usize, Guid)],
    ) -> BoxFuture<'a, Result<(), Fault>>;

    /// Removes the memberships of a sandbox, or of one of its interfaces. May be called repeatedly, and for
    /// unknown sandboxes.
    fn remove_sandbox(&self, container: &str, interface: Option<&str>);

    /// Returns the GUIDs of the sandbox's virtual functions, each with the position of its attachment. Empty if
    /// partitions are unmanaged.
    fn function_guids(&self, sandbox: SandboxPartitions<'_>) -> Vec<(usize, Guid)> {
        let _ = sandbox;
        Vec::new()
    }

    /// Lists the container ID and the pod's UID of all sandboxes with members, so that leaked memberships can
    /// be found.
    fn list_sandboxes(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}
