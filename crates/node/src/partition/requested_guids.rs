//! Claims GUIDs that pods request, and releases them after their sandboxes are gone.

use super::guid_leases::{GuidLease, GuidLeases};
use super::node_partitions_state::NodePartitionsState;
use super::{GuidClaimClient, ports};
use crate::error::error_chain;
use ferroband_daemon::Retry;
use ferroband_kernel::Hardware;
use ferroband_model::Fault;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tracing::{debug, info, warn};

/// How often unused GUID leases are checked and, if possible, released.
const RELEASE_INTERVAL: Duration = Duration::from_secs(5);

/// Knows which GUIDs pods requested for the virtual functions of this node.
pub trait GuidRequests: Send + Sync {
    /// Whether a pod requested this GUID for this function.
    fn is_requested(&self, lease: GuidLease) -> bool;
}

pub struct RequestedGuids {
    claims: GuidClaimClient,
    hardware: Arc<dyn Hardware>,
    leases: Mutex<GuidLeases>,
    /// Held while a GUID is claimed or released, so that a lease is not released while an ADD claims it again.
    gate: tokio::sync::Mutex<()>,
    /// Whether the leases that existed at startup are loaded.
    loaded: watch::Sender<bool>,
}

impl RequestedGuids {
    pub fn new(claims: GuidClaimClient, hardware: Arc<dyn Hardware>) -> Self {
        let loaded = watch::Sender::new(false);
        Self { claims, hardware, leases: Mutex::default(), gate: tokio::sync::Mutex::default(), loaded }
    }

    /// Waits until the leases that existed at startup are loaded.
    pub async fn wait_loaded(&self) {
        let _ = self.loaded.subscribe().wait_for(|loaded| *loaded).await;
    }

    /// Claims a GUID for an interface of a sandbox. If the GUID is in use, the fault names the owner.
    pub async fn acquire(
        &self,
        container: &str,
        ifname: &str,
        network: &str,
        lease: GuidLease,
    ) -> Result<(), Fault> {
        let _gate = self.gate.lock().await;
        self.claims.claim(network, lease.1, lease.0).await?;
        self.leases.lock().add(&NodePartitionsState::member_name(container, ifname), lease);
        Ok(())
    }

    /// Marks the GUIDs of a sandbox, or of one of its interfaces, as unused. The release loop releases them.
    pub fn remove_sandbox(&self, container: &str, ifname: Option<&str>) {
        self.leases.lock().remove_sandbox(container, ifname);
    }

    /// Loads the node's existing GUID leases, then repeatedly releases GUIDs that are no longer used. Never
    /// returns.
    pub async fn run_release_loop(self: Arc<Self>) {
        let mut retry = Retry::new(RELEASE_INTERVAL, RELEASE_INTERVAL);
        loop {
            match self.claims.list_node_leases().await {
                Ok(existing) => {
                    let now = Instant::now();
                    existing.into_iter().for_each(|lease| self.leases.lock().add_existing(lease, now));
                    self.loaded.send_replace(true);
                    break;
                }
                Err(error) => {
                    if let Some(error) = retry.news(&error) {
                        warn!(error, "cannot list claimed GUIDs, retrying");
                    }
                }
            }
            retry.pause().await;
        }
        loop {
            sleep(RELEASE_INTERVAL).await;
            if self.leases.lock().has_unused() {
                self.release_unused().await;
            }
        }
    }

    async fn release_unused(&self) {
        let _gate = self.gate.lock().await;
        let hardware = self.hardware.clone();
        let function_guids = spawn_blocking(move || ports::list_function_guids(hardware.root())).await;
        let Ok(Some(function_guids)) = function_guids else { return };
        let releasable = self.leases.lock().list_releasable(&function_guids, Instant::now());
        for lease in releasable {
            if let Err(error) = self.claims.release(lease).await {
                debug!(error = %error_chain(&error), guid = %lease.1, "cannot release the GUID, retrying");
                return;
            }
            info!(function = %lease.0, guid = %lease.1, "GUID released");
            self.leases.lock().remove(lease);
        }
    }
}

impl GuidRequests for RequestedGuids {
    fn is_requested(&self, lease: GuidLease) -> bool {
        self.leases.lock().contains(&lease)
    }
}
