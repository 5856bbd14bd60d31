//! Several opensm as one subnet manager.

use super::render::{parse_members, render};
use crate::{Error, FabricReport, MembershipTable, PartitionBatch, RateLimits, SubnetManager};
use futures::future::{BoxFuture, join_all};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What is known of an opensm besides its file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpensmHostStatus {
    /// Whether it programs the ports of virtual functions.
    pub virtualization: bool,
    /// Why it does not run, or is not master.
    pub problem: Option<String>,
}

/// A machine with an opensm: master or standby, nobody knows which it will be next.
pub trait OpensmHost: Send + Sync {
    /// Its name.
    fn name(&self) -> String;

    /// What it tells of itself.
    fn status(&self) -> OpensmHostStatus {
        OpensmHostStatus::default()
    }

    /// The file as it is.
    fn read(&self) -> BoxFuture<'_, Result<Option<String>, Error>>;

    /// Makes the file say what is wanted; the opensm need not look yet.
    fn write<'a>(&'a self, wanted: &'a MembershipTable) -> BoxFuture<'a, Result<(), Error>>;

    /// Makes the opensm look. A standby shrugs.
    fn signal(&self) -> BoxFuture<'_, Result<(), Error>>;
}

/// All opensm of a fabric.
///
/// Whoever becomes master applies its own file, so a change is on every host before any is told to look: a takeover
/// in between gives the old partitions or the new ones, never a mix over time.
pub struct Opensm {
    hosts: Vec<Box<dyn OpensmHost>>,
    interval: Duration,
    /// What was wanted last; nothing after a start, when nobody knows what the opensm have read.
    last_desired: Mutex<Option<Arc<MembershipTable>>>,
    /// Whether the signal of the last change is to be repeated. One that arrives while opensm sweeps, after it has read the
    /// file, can be lost (seen with two of them starting on a busy machine); once more at the next look costs a sweep.
    repeat_signal: AtomicBool,
}

impl Opensm {
    /// The opensm of these hosts.
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

    async fn write_all(&self, wanted: &MembershipTable) -> Result<(), Error> {
        if self.hosts.is_empty() {
            return Err(Error::Host {
                host: "(none)".to_owned(),
                problem: "no node is chosen to run one; label nodes ferroband.io/subnet-manager".to_owned(),
            });
        }
        let written = join_all(self.hosts.iter().map(|host| host.write(wanted))).await;
        written.into_iter().collect::<Result<(), _>>()?;
        self.repeat_signal.store(true, Ordering::Relaxed);
        self.signal_all().await
    }

    async fn signal_all(&self) -> Result<(), Error> {
        let signalled = join_all(self.hosts.iter().map(|host| host.signal())).await;
        signalled.into_iter().collect()
    }

    async fn read_all(&self) -> Result<FabricReport, Error> {
        let facts: Vec<(String, OpensmHostStatus)> =
            self.hosts.iter().map(|host| (host.name(), host.status())).collect();
        let problems: Vec<String> = facts
            .iter()
            .filter_map(|(host, facts)| Some(format!("{host}: {}", facts.problem.as_ref()?)))
            .collect();
        // Of several, one that runs is enough.
        if !facts.is_empty() && problems.len() == facts.len() {
            return Err(Error::Host { host: self.name(), problem: problems.join("; ") });
        }
        let virtualization = facts.iter().all(|(_, facts)| facts.virtualization) && !facts.is_empty();
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
                // Without a file everybody is in.
                (fabric.open, fabric.stale) = (Some(true), true);
                fabric.warnings.push(format!("{} has no partitions file", host.name()));
                fabric.members = MembershipTable::default();
                continue;
            };
            let last = self.last_desired().clone();
            let as_left =
                last.is_some_and(|last| render(Some(&text), &last).is_ok_and(|again| again == text));
            fabric.stale |= !as_left;
            match parse_members(&text) {
                Ok((members, open)) => {
                    fabric.open = fabric.open.map(|before| before || open);
                    // What not all have is not there yet: it will be written again everywhere.
                    if position == 0 {
                        fabric.members = members;
                    } else if members != fabric.members {
                        let both = members
                            .iter()
                            .filter(|(key, guid, kind)| fabric.members.get(*key, *guid) == Some(*kind));
                        fabric.members = both.collect();
                        fabric.warnings.push(format!("{} differs from the others", host.name()));
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
        // Each signal is a heavy sweep of the fabric.
        RateLimits { window: Duration::from_millis(50), interval: self.interval, max_in_flight: 1 }
    }
}
