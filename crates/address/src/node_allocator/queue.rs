//! The requests of a node that wait for the API server.

use crate::batch::{AddressRelease, AddressRequest};
use ferroband_model::{Fault, FaultCode};
use ipnet::IpNet;
use std::net::IpAddr;
use std::time::Duration;

/// An assigned address with its prefix length, and the gateway if the pool has one.
pub type IpWithGateway = (IpNet, Option<IpAddr>);

/// Answer to a queued request.
#[derive(Clone, Debug, PartialEq)]
pub enum AllocationReply {
    /// The addresses in the order of the requests.
    Assigned(Result<Vec<IpWithGateway>, Fault>),
    /// The API server has accepted the release.
    Released,
}

/// The address requests of one sandbox, which succeed or fail together.
#[derive(Clone, Debug)]
pub struct SandboxRequest {
    pub requests: Vec<AddressRequest>,
    /// Object that the error names if the assignment fails, for example `network default/a`.
    pub what: String,
    /// When the request fails if it is not answered before.
    pub deadline: Duration,
    /// Whether the sandbox has the addresses already and they are written again. Such a request never waits for
    /// permission to assign new addresses.
    pub restore: bool,
}

#[derive(Debug)]
pub(super) struct PendingAssignment<T> {
    pub(super) sandbox: SandboxRequest,
    pub(super) ticket: T,
    /// Round of calls before which nothing is known about the blocks for this request.
    pub(super) arrived: u64,
    /// Number of conflicts so far.
    pub(super) attempts: u32,
    /// Why the request fails, whatever the blocks contain.
    pub(super) refused: Option<Fault>,
}

#[derive(Debug)]
pub(super) struct AllocationQueue<T> {
    pub(super) assignments: Vec<PendingAssignment<T>>,
    pub(super) releases: Vec<(AddressRelease, T)>,
}

impl<T> Default for AllocationQueue<T> {
    fn default() -> Self {
        Self { assignments: Vec::new(), releases: Vec::new() }
    }
}

impl<T> AllocationQueue<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.assignments.is_empty() && self.releases.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.assignments.len() + self.releases.len()
    }

    /// Removes the assignments of the sandbox that `release` covers, because it no longer needs addresses.
    pub(super) fn cancel(&mut self, release: &AddressRelease) {
        let same = |request: &AddressRequest| {
            request.container == release.container
                && release.interface.as_ref().is_none_or(|name| *name == request.interface)
        };
        self.assignments.retain(|pending| !pending.sandbox.requests.iter().any(same));
    }
}

pub(super) fn timeout_fault(what: &str) -> Fault {
    Fault::new(
        FaultCode::ApiUnavailable,
        format!("addresses of {what}"),
        "the API server did not accept the assignment in time",
        "no action needed, the pod is retried automatically; check that the API server is up",
    )
}
