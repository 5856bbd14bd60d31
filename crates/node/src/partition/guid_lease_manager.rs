//! GUIDs that pods ask for: taken when a sandbox is made, given back when it is gone.

use super::guid_leases::{GuidLease, GuidLeases};
use super::node_partitions_state::NodePartitionsState;
use super::{GuidClaimClient, ports};
use crate::error::error_chain;
use ferroband_kernel::Hardware;
use ferroband_model::Fault;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tracing::{debug, info, warn};

/// How often those that are needed no more are looked for.
const RELEASE_INTERVAL: Duration = Duration::from_secs(5);

/// The GUIDs that this node's pods asked for.
pub struct GuidLeaseManager {
    claims: GuidClaimClient,
    hardware: Arc<dyn Hardware>,
    leases: Mutex<GuidLeases>,
    /// Held while a claim is made or given back: one is not given back while somebody takes it up again.
    gate: tokio::sync::Mutex<()>,
}

impl GuidLeaseManager {
    /// Claimed by way of `claims`.
    pub fn new(claims: GuidClaimClient, hardware: Arc<dyn Hardware>) -> Self {
        Self { claims, hardware, leases: Mutex::default(), gate: tokio::sync::Mutex::default() }
    }

    fn leases(&self) -> MutexGuard<'_, GuidLeases> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims one for an interface of a sandbox. An error says whose it is.
    pub async fn acquire(
        &self,
        container: &str,
        ifname: &str,
        network: &str,
        holding: GuidLease,
    ) -> Result<(), Fault> {
        let _gate = self.gate.lock().await;
        self.claims.claim(network, holding.1, holding.0).await?;
        self.leases().add(&NodePartitionsState::member_name(container, ifname), holding);
        Ok(())
    }

    /// A sandbox, or one interface of it, is gone.
    pub fn remove_sandbox(&self, container: &str, ifname: Option<&str>) {
        self.leases().remove_sandbox(container, ifname);
    }

    /// Give back what is needed no more, for ever.
    pub async fn run_release_loop(self: Arc<Self>) {
        loop {
            match self.claims.list_node_leases().await {
                Ok(found) => {
                    let now = Instant::now();
                    found.into_iter().for_each(|holding| self.leases().add_existing(holding, now));
                    break;
                }
                Err(error) => {
                    warn!(error = %error_chain(&error), "claimed GUIDs are not to be had; trying again");
                }
            }
            sleep(RELEASE_INTERVAL).await;
        }
        loop {
            sleep(RELEASE_INTERVAL).await;
            if self.leases().has_unused() {
                self.release_unused().await;
            }
        }
    }

    async fn release_unused(&self) {
        let _gate = self.gate.lock().await;
        let hardware = self.hardware.clone();
        let seen = spawn_blocking(move || ports::list_function_guids(hardware.root())).await;
        let Ok(Some(seen)) = seen else { return };
        let idle = self.leases().list_releasable(&seen, Instant::now());
        for holding in idle {
            if let Err(error) = self.claims.release(holding).await {
                debug!(error = %error_chain(&error), guid = %holding.1, "a GUID is not given back yet");
                return;
            }
            info!(function = %holding.0, guid = %holding.1, "a GUID is given back");
            self.leases().remove(holding);
        }
    }
}
