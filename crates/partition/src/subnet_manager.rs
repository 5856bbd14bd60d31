//! The interface to subnet managers.

use crate::{Error, MembershipTable, PartitionChange, RequestedPKey};
use futures::future::BoxFuture;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The partition management of a subnet manager.
pub trait SubnetManager: Send + Sync {
    /// Display name, for example `ufm https://10.0.0.1`.
    fn name(&self) -> String;

    /// Lists all members of all partitions and the state of the fabric. Returns within a deadline.
    fn observe(&self) -> BoxFuture<'_, Result<FabricReport, Error>>;

    /// Applies a batch. Returns within a deadline. Applying the same batch again has no further effect.
    fn apply(&self, batch: PartitionBatch) -> BoxFuture<'_, Result<(), Error>>;

    /// Returns the batching and rate limits that suit this subnet manager.
    fn rate_limits(&self) -> RateLimits;
}

/// Partition changes that are sent to the subnet manager together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionBatch {
    pub changes: BTreeMap<RequestedPKey, PartitionChange>,
    /// All desired memberships, for subnet managers such as opensm that read all partitions from one file. It also
    /// tells which GUIDs are those of virtual functions.
    pub desired: Arc<MembershipTable>,
}

/// The state of the fabric as reported by the subnet manager.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FabricReport {
    /// Members of all partitions except the default one.
    pub members: MembershipTable,
    /// Partitions that exist but whose members could not be read.
    pub unread: BTreeSet<RequestedPKey>,
    /// Whether the default partition is missing in the subnet manager's answer. Every fabric has it.
    pub lacks_default_partition: bool,
    /// Whether the ports of pods are full members of the default partition, so that partitions do not isolate. `None`
    /// if unknown.
    pub open: Option<bool>,
    /// Management keys that still have their default value, for example `m_key is 0`.
    pub default_secrets: Vec<String>,
    /// Whether the subnet manager programs the virtual ports of SR-IOV functions. `None` if unknown.
    pub virtualization: Option<bool>,
    /// Whether all memberships must be sent again although none differs, because the partitions file of the
    /// subnet manager is missing, broken or modified.
    pub stale: bool,
    /// opensm hosts that do not have the current partitions, each with the reason. Changes are made on the others.
    pub outdated_hosts: Vec<String>,
    /// Other problems that users should know about.
    pub warnings: Vec<String>,
}

/// How changes are batched for a subnet manager, and how often batches are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimits {
    /// How long changes are collected before they are sent.
    pub window: Duration,
    /// Minimum time between the starts of two batches.
    pub interval: Duration,
    /// Maximum number of batches in flight. If it is 1, a batch contains the changes of all partitions,
    /// otherwise those of one partition.
    pub max_in_flight: usize,
}

/// No subnet manager: GUIDs are assigned, but partitions are managed elsewhere.
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
