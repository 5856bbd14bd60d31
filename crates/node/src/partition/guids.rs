//! GUIDs that pods ask for: taken when a sandbox is made, given back when it is gone.

use super::book::Book;
use super::holdings::{Holding, Holdings};
use super::{Claims, ports};
use crate::error::chain;
use ferroband_kernel::Hardware;
use ferroband_model::Fault;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tracing::{debug, info, warn};

/// How often those that are needed no more are looked for.
const LOOK: Duration = Duration::from_secs(5);

/// The GUIDs that this node's pods asked for.
pub struct Guids {
    claims: Claims,
    hardware: Arc<dyn Hardware>,
    holdings: Mutex<Holdings>,
    /// Held while a claim is made or given back: one is not given back while somebody takes it up again.
    gate: tokio::sync::Mutex<()>,
}

impl Guids {
    /// Claimed by way of `claims`.
    pub fn new(claims: Claims, hardware: Arc<dyn Hardware>) -> Self {
        Self { claims, hardware, holdings: Mutex::default(), gate: tokio::sync::Mutex::default() }
    }

    fn holdings(&self) -> MutexGuard<'_, Holdings> {
        self.holdings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims one for an interface of a sandbox. An error says whose it is.
    pub async fn take(
        &self,
        container: &str,
        ifname: &str,
        network: &str,
        holding: Holding,
    ) -> Result<(), Fault> {
        let _gate = self.gate.lock().await;
        self.claims.claim(network, holding.1, holding.0).await?;
        self.holdings().take(&Book::name(container, ifname), holding);
        Ok(())
    }

    /// A sandbox, or one interface of it, is gone.
    pub fn leave(&self, container: &str, ifname: Option<&str>) {
        self.holdings().leave(container, ifname);
    }

    /// Give back what is needed no more, for ever.
    pub async fn keep_given_back(self: Arc<Self>) {
        loop {
            match self.claims.of_node().await {
                Ok(found) => {
                    let now = Instant::now();
                    found.into_iter().for_each(|holding| self.holdings().find(holding, now));
                    break;
                }
                Err(error) => warn!(error = %chain(&error), "claimed GUIDs are not to be had; trying again"),
            }
            sleep(LOOK).await;
        }
        loop {
            sleep(LOOK).await;
            if self.holdings().has_unused() {
                self.give_back().await;
            }
        }
    }

    async fn give_back(&self) {
        let _gate = self.gate.lock().await;
        let hardware = self.hardware.clone();
        let seen = spawn_blocking(move || ports::functions(hardware.root())).await;
        let Ok(Some(seen)) = seen else { return };
        let idle = self.holdings().idle(&seen, Instant::now());
        for holding in idle {
            if let Err(error) = self.claims.give_back(holding).await {
                debug!(error = %chain(&error), guid = %holding.1, "a GUID is not given back yet");
                return;
            }
            info!(function = %holding.0, guid = %holding.1, "a GUID is given back");
            self.holdings().gave_back(holding);
        }
    }
}
