//! What the kubelet is to be told, kept current.

use super::{
    health::Health,
    held::{self, Departed, Held},
    leaving::Leaving,
    register::Kubelet,
};
use crate::{
    Error,
    discover::Inventory,
    kubelet::Kubelet as PodResources,
    pools::{Configured, Problem, Share, share},
};
use ferroband_model::PciAddress;
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::{sync::watch, task::spawn_blocking, time};
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// How often the kubelet's notes are read while a unit waits for its pod to end.
const NOTES: Duration = Duration::from_secs(5);

/// Every resource of this node, as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Board {
    /// The hardware.
    pub inventory: Arc<Inventory>,
    /// Who has what of it.
    pub shares: Vec<Share>,
    /// What whoever configured the node should know.
    pub problems: Vec<Problem>,
    /// Whether the node has been looked at.
    pub known: bool,
}

impl Board {
    /// The share of `resource`.
    pub fn share(&self, resource: &str) -> Option<&Share> {
        self.shares.iter().find(|share| share.pool.resource.to_string() == resource)
    }
}

/// What was given out since we started, for when the kubelet's notes cannot be read.
pub type Given = Arc<Mutex<Held>>;

/// Keep `board` as hardware and configuration are, until `stop`.
pub async fn keep_board(
    mut configured: watch::Receiver<Arc<Configured>>,
    mut inventory: watch::Receiver<Arc<Inventory>>,
    kubelet: Kubelet,
    given: Given,
    board: watch::Sender<Arc<Board>>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let mut health = Health::default();
    let mut leaving = Leaving::default();
    let mut departed = Departed::default();
    let (folder, kubelet) = (kubelet.device_plugins(), PodResources::at(&kubelet.folder));
    loop {
        let (wanted, seen) = (configured.borrow_and_update().clone(), inventory.borrow_and_update().clone());
        let notes = spawn_blocking({
            let folder = folder.clone();
            move || held::held(&folder)
        });
        let notes =
            notes.await.map_err(|e| Error::Task { task: "device board", source: Some(Box::new(e)) })?;
        let mut held = notes.unwrap_or_else(|| given.lock().unwrap_or_else(PoisonError::into_inner).clone());
        if !held.is_empty() {
            departed.leave_out(&mut held, kubelet.given().await.as_ref(), Instant::now());
        }
        let ids = held.keys().map(|(_, id)| id).filter(|id| id.parse::<PciAddress>().is_ok());
        let functions: BTreeSet<String> = ids.cloned().collect();
        let now = Instant::now();
        health.see(&seen, now);
        let (mut shares, problems) = share(&wanted.pools, &seen, &functions, &|pci| health.is_up(pci));
        leaving.apply(&mut shares, &held, now);
        let problems: Vec<_> = wanted.problems.iter().cloned().chain(problems).collect();
        let next = Board { inventory: seen, shares, problems, known: true };
        board.send_if_modified(|known| {
            let changed = **known != next;
            for problem in next.problems.iter().filter(|problem| !known.problems.contains(problem)) {
                if !wanted.problems.contains(problem) {
                    warn!(%problem, "device pool");
                }
            }
            if changed {
                *known = Arc::new(next);
            }
            changed
        });
        let notes = leaving.any().then(|| now + NOTES);
        let due = health.due().into_iter().chain(notes).chain(departed.due(now)).min();
        let due = async {
            match due {
                Some(due) => time::sleep_until(due.into()).await,
                None => std::future::pending().await,
            }
        };
        let changed = tokio::select! {
            changed = configured.changed() => changed,
            changed = inventory.changed() => changed,
            () = due => Ok(()),
            () = stop.cancelled() => return Ok(()),
        };
        if changed.is_err() {
            // The sender's task has ended, and with it the daemon.
            stop.cancelled().await;
            return Ok(());
        }
    }
}
