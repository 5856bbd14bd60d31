//! Combines the opensm instances of a fabric into one subnet manager.
//!
//! A host that cannot be updated does not stop the others. It is outdated until a write to it succeeds again:
//!
//! ```text
//! apply:   write on all hosts ─▶ at least one succeeded, and no outdated host is the master ─▶ signal these hosts
//! observe: write and signal the outdated hosts again ─▶ read the other hosts
//! ```

use super::host::{OpensmHost, OpensmHostStatus, TrackedHost};
use super::render::{parse_members, render};
use crate::{Error, FabricReport, MembershipTable, PartitionBatch, RateLimits, SubnetManager};
use ferroband_model::Guid;
use futures::future::{BoxFuture, join_all};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tracing::info;

/// All opensm instances of a fabric.
///
/// A new master applies its own partitions file, so a change is written on every host before any opensm is
/// signalled. A takeover in between then results in either the old or the new partitions, never in a mix.
pub struct Opensm {
    hosts: Vec<TrackedHost>,
    interval: Duration,
    /// The desired memberships of the last change, for hosts that are outdated; `None` before the first change.
    last_desired: Mutex<Option<Arc<MembershipTable>>>,
    /// Whether the last change succeeded. If not, it is unknown what opensm has read.
    is_applied: AtomicBool,
    /// Whether to repeat the signal of the last change. A signal that arrives during a sweep, after opensm
    /// has read the partitions file, can be lost (observed with two instances starting on a busy host). The
    /// signal is repeated when the memberships are read the next time, which costs one sweep.
    repeat_signal: AtomicBool,
}

impl Opensm {
    /// Creates a subnet manager from the hosts that run opensm.
    pub fn new(hosts: Vec<Box<dyn OpensmHost>>) -> Self {
        Self {
            hosts: hosts.into_iter().map(TrackedHost::new).collect(),
            interval: Duration::from_secs(1),
            last_desired: Mutex::default(),
            is_applied: AtomicBool::default(),
            repeat_signal: AtomicBool::default(),
        }
    }

    async fn write_all(&self, desired: &MembershipTable) -> Result<(), Error> {
        if self.hosts.is_empty() {
            return Err(Error::Host {
                host: "(none)".to_owned(),
                problem: "no node is selected to run opensm; label nodes with \
                          node-restriction.kubernetes.io/ferroband-subnet-manager"
                    .to_owned(),
            });
        }
        join_all(self.hosts.iter().map(|host| host.write(desired))).await;
        self.check_updated()?;
        self.repeat_signal.store(true, Ordering::Relaxed);
        self.signal_all().await
    }

    async fn signal_all(&self) -> Result<(), Error> {
        join_all(self.hosts.iter().map(TrackedHost::signal)).await;
        self.check_updated()
    }

    /// Returns an error if all hosts are outdated, or if the master is: the fabric then does not have the change.
    fn check_updated(&self) -> Result<(), Error> {
        if self.hosts.is_empty() {
            return Ok(());
        }
        let (outdated, updated): (Vec<_>, Vec<_>) =
            self.hosts.iter().map(|host| (host, host.problem())).partition(|(_, problem)| problem.is_some());
        if updated.is_empty() {
            return Err(Error::Host { host: self.name(), problem: describe(&outdated).join("; ") });
        }
        let masters: Vec<Guid> = updated.iter().filter_map(|(host, _)| host.host.status().master).collect();
        let is_master =
            |host: &TrackedHost| host.host.status().port.is_some_and(|port| masters.contains(&port));
        match outdated.into_iter().find(|(host, _)| is_master(host)) {
            Some((host, problem)) => Err(Error::Host {
                host: host.name(),
                problem: format!(
                    "it is the master and cannot be updated: {}; waiting until it is back or another host takes over",
                    problem.unwrap_or_default()
                ),
            }),
            None => Ok(()),
        }
    }

    /// Writes the last change on the outdated hosts. The other hosts are not signalled again.
    async fn update_outdated_hosts(&self) {
        let Some(desired) = self.last_desired.lock().clone() else { return };
        let outdated = self.hosts.iter().filter(|host| host.problem().is_some());
        join_all(outdated.map(|host| async {
            host.write(&desired).await;
            host.signal().await;
            if host.problem().is_none() {
                info!(host = host.name(), "opensm has the current partitions again");
            }
        }))
        .await;
    }

    async fn read_all(&self) -> Result<FabricReport, Error> {
        let statuses: Vec<(String, OpensmHostStatus)> =
            self.hosts.iter().map(|host| (host.name(), host.host.status())).collect();
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
        let mut texts = self.read_texts().await;
        self.update_outdated_hosts().await;
        if texts.is_empty() {
            // All hosts were outdated. One that is back now counts.
            self.check_updated()?;
            texts = self.read_texts().await;
        }
        let is_written = texts.iter().any(|(_, text)| text.is_some());
        let outdated: Vec<_> = self.hosts.iter().map(|host| (host, host.problem())).collect();
        fabric.outdated_hosts = describe(&outdated);
        let mut first = true;
        for (host, text) in texts {
            let Some(text) = text else {
                if !is_written {
                    // Without a partitions file, opensm makes every port a full member of the default partition.
                    (fabric.open, fabric.stale) = (Some(true), true);
                    fabric.warnings.push(format!("{}: the partitions file does not exist", host.name()));
                }
                continue;
            };
            self.add_host_report(&mut fabric, host, &text, std::mem::take(&mut first));
        }
        Ok(fabric)
    }

    /// Reads the files of all hosts that are not outdated. A host whose file is missing or cannot be read is outdated
    /// from then on, if another host has the file.
    async fn read_texts(&self) -> Vec<(&TrackedHost, Option<String>)> {
        let current: Vec<&TrackedHost> = self.hosts.iter().filter(|host| host.problem().is_none()).collect();
        let texts = join_all(current.iter().map(|host| host.host.read())).await;
        let is_written = texts.iter().any(|text| matches!(text, Ok(Some(_))));
        let mut found = Vec::new();
        for (host, text) in current.into_iter().zip(texts) {
            let text = text.unwrap_or_else(|error| {
                host.record(Err(error));
                None
            });
            if text.is_none() && is_written && host.problem().is_none() {
                let problem = "it has not written the current partitions file".to_owned();
                host.record(Err(Error::Host { host: host.name(), problem }));
            }
            found.push((host, text));
        }
        found
    }

    fn add_host_report(&self, fabric: &mut FabricReport, host: &TrackedHost, text: &str, first: bool) {
        let last = self.last_desired.lock().clone().filter(|_| self.is_applied.load(Ordering::Relaxed));
        let unchanged =
            last.is_some_and(|last| render(Some(text), &last).is_ok_and(|rendered| rendered == text));
        fabric.stale |= !unchanged;
        match parse_members(text) {
            Ok((members, open)) => {
                fabric.open = fabric.open.map(|was_open| was_open || open);
                // A membership that is missing on one host counts as missing, so that it is written to all hosts again.
                if first {
                    fabric.members = members;
                } else if !members.has_same_members(&fabric.members) {
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
}

/// Names the hosts that have a problem, with the problem.
fn describe(hosts: &[(&TrackedHost, Option<String>)]) -> Vec<String> {
    hosts
        .iter()
        .filter_map(|(host, problem)| Some(format!("{}: {}", host.name(), problem.as_ref()?)))
        .collect()
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
            *self.last_desired.lock() = Some(batch.desired.clone());
            self.is_applied.store(false, Ordering::Relaxed);
            self.write_all(&batch.desired).await?;
            self.is_applied.store(true, Ordering::Relaxed);
            Ok(())
        })
    }

    fn rate_limits(&self) -> RateLimits {
        // Each signal causes a heavy sweep of the fabric, so there is a minimum interval between batches.
        RateLimits { window: Duration::from_millis(50), interval: self.interval, max_in_flight: 1 }
    }
}

#[cfg(test)]
mod tests;
