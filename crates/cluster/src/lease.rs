//! Who leads: a Lease object that only one replica holds at a time.
//!
//! The holder renews it well before it runs out. A replica that could not renew stops leading *before* anybody else may
//! begin: it counts from when it asked, others from when they saw the renewal arrive. Others trust no clock but their
//! own: a lease has run out when its renewal time has not changed for its whole length, as seen from here.

mod record;

use crate::Settings;
use ferroband_daemon::{call::bounded, chain};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1;
use kube::{Api, Client, api::PostParams};
use record::{Held, Seen};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, warn};

/// The object's name.
const NAME: &str = "ferroband-cluster";

/// The lease.
#[derive(Clone)]
pub struct Lease {
    api: Api<v1::Lease>,
    identity: String,
    length: Duration,
}

impl Lease {
    /// The lease in the daemon's namespace.
    pub fn new(client: Client, settings: &Settings) -> Self {
        Self {
            api: Api::namespaced(client, &settings.namespace),
            identity: settings.identity.clone(),
            length: settings.lease,
        }
    }

    /// Returns when the lease is ours.
    pub async fn acquire(&self) {
        let mut seen = Seen::default();
        let mut trouble = String::new();
        loop {
            match self.attempt(&mut seen).await {
                Ok(true) => return,
                Ok(false) => trouble.clear(),
                Err(e) => {
                    let problem = chain(&e);
                    if problem != trouble {
                        warn!(error = problem, "cannot take the lease; trying again");
                        trouble = problem;
                    }
                }
            }
            sleep(self.beat()).await;
        }
    }

    /// Keeps the lease; returns when it is lost, or may be.
    pub async fn lost(&self) {
        let mut renewed = Instant::now();
        loop {
            sleep(self.beat()).await;
            let asked = Instant::now();
            // A renewal that takes too long is none.
            let left = self.trusted().saturating_sub(renewed.elapsed());
            match timeout(left, self.renew()).await {
                Ok(Ok(true)) => renewed = asked,
                Ok(Ok(false)) => return warn!("another replica holds the lease"),
                Ok(Err(e)) => debug!(error = %chain(&e), "the lease is not renewed yet"),
                Err(_) => {}
            }
            if renewed.elapsed() >= self.trusted() {
                return warn!("the lease could not be renewed in time");
            }
        }
    }

    /// Let others have it at once.
    pub async fn give_up(&self) {
        let given = async {
            let lease = bounded(self.api.get(NAME)).await?;
            if Held::of(&lease).is_some_and(|held| held.by == self.identity) {
                bounded(self.api.replace(NAME, &PostParams::default(), &record::free(lease))).await?;
            }
            Ok::<_, kube::Error>(())
        };
        if let Err(e) = given.await {
            debug!(error = %chain(&e), "the lease runs out by itself");
        }
    }

    async fn attempt(&self, seen: &mut Seen) -> kube::Result<bool> {
        let now = Timestamp::now();
        match bounded(self.api.get_opt(NAME)).await? {
            None => {
                let new = record::new(NAME, &self.identity, self.length, now);
                taken(bounded(self.api.create(&PostParams::default(), &new)).await)
            }
            Some(lease) if seen.is_free(&lease, &self.identity, Instant::now()) => {
                let mine = record::take(lease, &self.identity, self.length, now);
                // The version it was read at goes along: of two that try, one succeeds.
                taken(bounded(self.api.replace(NAME, &PostParams::default(), &mine)).await)
            }
            Some(_) => Ok(false),
        }
    }

    async fn renew(&self) -> kube::Result<bool> {
        let Some(lease) = self.api.get_opt(NAME).await? else { return Ok(false) };
        if Held::of(&lease).is_none_or(|held| held.by != self.identity) {
            return Ok(false);
        }
        let renewed = record::renew(lease, Timestamp::now());
        taken(self.api.replace(NAME, &PostParams::default(), &renewed).await)
    }

    /// The pause between two attempts or renewals.
    fn beat(&self) -> Duration {
        self.length / 5
    }

    /// How long a renewal is trusted here: less than others wait.
    fn trusted(&self) -> Duration {
        self.length * 2 / 3
    }
}

fn taken(answer: kube::Result<v1::Lease>) -> kube::Result<bool> {
    match answer {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(e) => Err(e),
    }
}
