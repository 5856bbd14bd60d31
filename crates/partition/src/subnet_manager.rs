//! What every subnet manager does for us.

use crate::{Error, MembershipTable, PKeyBase, PartitionChange};
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A subnet manager, as far as partitions go.
pub trait SubnetManager: Send + Sync {
    /// What people call it: `ufm https://10.0.0.1`.
    fn name(&self) -> String;

    /// All members of all partitions, ours and others', and what else it tells about the fabric. Ends by a deadline.
    fn observe(&self) -> BoxFuture<'_, Result<FabricReport, Error>>;

    /// Makes a batch so. Ends by a deadline; sending the same again does no harm.
    fn apply(&self, batch: PartitionBatch) -> BoxFuture<'_, Result<(), Error>>;

    /// How it likes to be asked.
    fn rate_limits(&self) -> RateLimits;
}

/// Changes to be made together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionBatch {
    /// What is to change.
    pub changes: BTreeMap<PKeyBase, PartitionChange>,
    /// What is wanted in whole, for managers that take all or nothing.
    pub desired: Arc<MembershipTable>,
}

/// What a manager tells about its fabric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FabricReport {
    /// The members of partitions that people may use.
    pub members: MembershipTable,
    /// Whether every port is a full member of the default partition, which makes partitions isolate nothing. Unknown
    /// where the manager does not tell.
    pub open: Option<bool>,
    /// Keys of the management protocol that are still the ones of the box (`sm_key`, `m_key`, …).
    pub default_secrets: Vec<String>,
    /// Whether it programs the ports of virtual functions. Unknown where the manager does not tell.
    pub virtualization: Option<bool>,
    /// Whether it is to be told anew although no membership differs: its file is gone, broken or not as we left it.
    pub stale: bool,
    /// What it has to say besides.
    pub warnings: Vec<String>,
}

/// How a manager likes to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimits {
    /// How long changes are collected before they are sent.
    pub window: Duration,
    /// The least time from the start of one batch to that of the next.
    pub interval: Duration,
    /// How many batches may be under way. With one, a batch is all partitions; else each partition is its own.
    pub max_in_flight: usize,
}

/// No subnet manager: GUIDs are handed out, partitions are somebody else's business.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoopSubnetManager;

impl SubnetManager for NoopSubnetManager {
    fn name(&self) -> String {
        "none".to_owned()
    }

    fn observe(&self) -> BoxFuture<'_, Result<FabricReport, Error>> {
        Box::pin(async { Ok(FabricReport::default()) })
    }

    fn apply(&self, _: PartitionBatch) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async { Ok(()) })
    }

    fn rate_limits(&self) -> RateLimits {
        RateLimits { window: Duration::ZERO, interval: Duration::ZERO, max_in_flight: 1 }
    }
}
