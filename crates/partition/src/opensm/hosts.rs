//! Combines the opensm instances of a fabric into one subnet manager.

use super::render::{parse_members, render};
use crate::{Error, FabricReport, MembershipTable, PartitionBatch, RateLimits, SubnetManager};
use futures::future::{BoxFuture, join_all};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Capabilities and problems of an opensm instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpensmHostStatus {
    /// Whether opensm programs the virtual ports of SR-IOV functions.
    pub virtualization: bool,
    /// Why opensm does not run or cannot become master; `None` if there is no problem.
    pub problem: Option<String>,
}

/// A host that runs opensm, as master or standby. The roles can change at any time.
pub trait OpensmHost: Send + Sync {
    /// Name of the host, for messages.
    fn name(&self) -> String;

    /// Capabilities and problems of the host's opensm. By default, no virtualization and no problem.
    fn status(&self) -> OpensmHostStatus {
        OpensmHostStatus::default()
    }

    /// Reads the partitions file. Returns `None` if it does not exist.
    fn read(&self) -> BoxFuture<'_, Result<Option<String>, Error>>;

    /// Writes the desired memberships to the partitions file, without a signal to opensm.
    fn write<'a>(&'a self, desired: &'a MembershipTable) -> BoxFuture<'a, Result<(), Error>>;

    /// Makes opensm read the partitions file. Has no effect on a standby.
    fn signal(&self) -> BoxFuture<'_, Result<(), Error>>;
}

/// All opensm instances of a fabric.
///
/// A new master applies its own partitions file, so a change is written on every host before any opensm is
/// signalled. A takeover in between then results in either the old or the new partitions, never in a mix.
pub struct Opensm {
    hosts: Vec<Box<dyn OpensmHost>>,
    interval: Duration,
    /// The desired memberships that were last written on all hosts. `None` after a start or a failed write,
    /// when it is unknown what opensm has read.
    last_desired: Mutex<Option<Arc<MembershipTable>>>,
    /// Whether to repeat the signal of the last change. A signal that arrives during a sweep, after opensm
    /// has read the partitions file, can be lost (observed with two instances starting on a busy host). The
    /// signal is repeated when the memberships are read the next time, which costs one sweep.
    repeat_signal: AtomicBool,
}

impl Opensm {
    /// Creates a subnet manager from the hosts that run opensm.
    pub fn new(hosts: Vec<Box<dyn OpensmHost>>) -> Self {
        Self {
            hosts,
            interval: Duration::from_secs(1),
            last_desired: Mutex::default(),
            repeat_signal: AtomicBool::default(),
        }
    }

    fn last_desired(&self) -> MutexGuard<'_, Option<Arc<MembershipTable>>> {
        self.last_desired.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn write_all(&self, desired: &MembershipTable) -> Result<(), Error> {
        if self.hosts.is_empty() {
            return Err(Error::Host {
                host: "(none)".to_owned(),
                problem: "no node is selected to run opensm; label nodes with ferroband.io/subnet-manager"
                    .to_owned(),
            });
        }
        let results = join_all(self.hosts.iter().map(|host| host.write(desired))).await;
        results.into_iter().collect::<Result<(), _>>()?;
        self.repeat_signal.store(true, Ordering::Relaxed);
        self.signal_all().await
    }

    async fn signal_all(&self) -> Result<(), Error> {
        let results = join_all(self.hosts.iter().map(|host| host.signal())).await;
        results.into_iter().collect()
    }

    async fn read_all(&self) -> Result<FabricReport, Error> {
        let statuses: Vec<(String, OpensmHostStatus)> =
            self.hosts.iter().map(|host| (host.name(), host.status())).collect();
        let problems: Vec<String> = statuses
            .iter()
            .filter_map(|(host, status)| Some(format!("{host}: {}", status.problem.as_ref()?)))
            .collect();
        // One running instance is enough, so this is an error only if every instance has a problem.
        if !statuses.is_empty() && problems.len() == statuses.len() {
            return Err(Error::Host { host: self.name(), problem: problems.join("; ") });
        }
        let virtualization = statuses.iter().all(|(_, status)| status.virtualization) && !statuses.is_empty();
        let mut fabric = FabricReport {
            virtualization: Some(virtualization),
            open: Some(false),
            warnings: problems,
            ..FabricReport::default()
        };
        if self.repeat_signal.swap(false, Ordering::Relaxed) {
            self.signal_all().await?;
        }
        let texts = join_all(self.hosts.iter().map(|host| host.read())).await;
        for (position, (host, text)) in self.hosts.iter().zip(texts).enumerate() {
            let Some(text) = text? else {
                // Without a partitions file, opensm makes every port a full member of the default partition.
                (fabric.open, fabric.stale) = (Some(true), true);
                fabric.warnings.push(format!("{}: the partitions file does not exist", host.name()));
                fabric.members = MembershipTable::default();
                continue;
            };
            let last = self.last_desired().clone();
            let unchanged =
                last.is_some_and(|last| render(Some(&text), &last).is_ok_and(|rendered| rendered == text));
            fabric.stale |= !unchanged;
            match parse_members(&text) {
                Ok((members, open)) => {
                    fabric.open = fabric.open.map(|was_open| was_open || open);
                    // A membership that is missing on one host counts as missing, so that it is written to
                    // all hosts again.
                    if position == 0 {
                        fabric.members = members;
                    } else if members != fabric.members {
                        let common = members
                            .iter()
                            .filter(|(key, guid, kind)| fabric.members.get(*key, *guid) == Some(*kind));
                        fabric.members = common.collect();
                        fabric
                            .warnings
                            .push(format!("{}: partitions file differs from another host's", host.name()));
                    }
                }
                Err(error) => {
                    fabric.open = Some(true);
                    fabric.warnings.push(format!("{}: {error}", host.name()));
                    fabric.members = MembershipTable::default();
                }
            }
        }
        Ok(fabric)
    }
}

impl SubnetManager for Opensm {
    fn name(&self) -> String {
        let names: Vec<String> = self.hosts.iter().map(|host| host.name()).collect();
        format!("opensm on {}", names.join(", "))
    }

    fn observe(&self) -> BoxFuture<'_, Result<FabricReport, Error>> {
        Box::pin(self.read_all())
    }

    fn apply(&self, batch: PartitionBatch) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            *self.last_desired() = None;
            self.write_all(&batch.desired).await?;
            *self.last_desired() = Some(batch.desired);
            Ok(())
        })
    }

    fn rate_limits(&self) -> RateLimits {
        // Each signal causes a heavy sweep of the fabric, so there is a minimum interval between batches.
        RateLimits { window: Duration::from_millis(50), interval: self.interval, max_in_flight: 1 }
    }
}
