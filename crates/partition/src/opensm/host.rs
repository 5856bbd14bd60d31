//! A host that runs opensm, and whether it has the current partitions.

use crate::{Error, MembershipTable};
use ferroband_model::Guid;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::time::Duration;

/// How long an outdated host is waited for. A host that is not outdated may take as long as it needs.
const OUTDATED_HOST_TIMEOUT: Duration = Duration::from_secs(1);

/// Capabilities and problems of an opensm instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpensmHostStatus {
    /// Whether opensm programs the virtual ports of SR-IOV functions.
    pub virtualization: bool,
    /// Why opensm does not run or cannot become master; `None` if there is no problem.
    pub problem: Option<String>,
    /// GUID of the port that opensm uses; `None` if unknown.
    pub port: Option<Guid>,
    /// GUID of the master subnet manager's port, as this host sees it; `None` if unknown.
    pub master: Option<Guid>,
}

/// A host that runs opensm, as master or standby. The roles can change at any time.
pub trait OpensmHost: Send + Sync {
    /// Name of the host, for messages.
    fn name(&self) -> String;

    /// Capabilities and problems of the host's opensm.
    fn status(&self) -> OpensmHostStatus;

    /// Reads the partitions file. Returns `None` if it does not exist.
    fn read(&self) -> BoxFuture<'_, Result<Option<String>, Error>>;

    /// Writes the desired memberships to the partitions file, without a signal to opensm.
    fn write<'a>(&'a self, desired: &'a MembershipTable) -> BoxFuture<'a, Result<(), Error>>;

    /// Makes opensm read the partitions file. Has no effect on a standby.
    fn signal(&self) -> BoxFuture<'_, Result<(), Error>>;
}

/// A host, and why it is outdated.
pub(super) struct TrackedHost {
    pub(super) host: Box<dyn OpensmHost>,
    /// Error of the last write or signal; `None` if the host has the desired memberships that were last written.
    problem: Mutex<Option<String>>,
}

impl TrackedHost {
    pub(super) fn new(host: Box<dyn OpensmHost>) -> Self {
        Self { host, problem: Mutex::default() }
    }

    pub(super) fn name(&self) -> String {
        self.host.name()
    }

    pub(super) fn problem(&self) -> Option<String> {
        self.problem.lock().clone()
    }

    pub(super) fn record(&self, outcome: Result<(), Error>) {
        let problem = outcome.err().map(|error| match error {
            Error::Host { problem, .. } => problem,
            other => other.to_string(),
        });
        *self.problem.lock() = problem;
    }

    /// Writes the desired memberships and records the outcome. An outdated host gets little time, so that a dead host
    /// delays only the first change after its death.
    pub(super) async fn write(&self, desired: &MembershipTable) {
        if self.problem().is_none() {
            return self.record(self.host.write(desired).await);
        }
        // After a timeout, the earlier problem stays: it says more.
        if let Ok(outcome) = tokio::time::timeout(OUTDATED_HOST_TIMEOUT, self.host.write(desired)).await {
            self.record(outcome);
        }
    }

    /// Signals the host unless it is outdated, and records a failure.
    pub(super) async fn signal(&self) {
        if self.problem().is_none() {
            self.record(self.host.signal().await);
        }
    }
}
