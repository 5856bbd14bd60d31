//! Who leads: a Lease object that only one replica holds at a time.
//!
//! The holder renews it well before it runs out. A replica that could not renew stops leading *before* anybody else may
//! begin: it counts from when it asked, others from when they saw the renewal arrive. Others trust no clock but their
//! own: a lease has run out when its renewal time has not changed for its whole length, as seen from here.

mod lease_object;

use crate::ClusterSettings;
use ferroband_daemon::{api_call::with_timeout, error_chain};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1;
use kube::{Api, Client, api::PostParams};
use lease_object::{LeaseHolder, LeaseObserver};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, warn};

/// The object's name.
const LEASE_NAME: &str = "ferroband-cluster";

/// The lease.
#[derive(Clone)]
pub struct LeaderLease {
    api: Api<v1::Lease>,
    identity: String,
    lease_duration: Duration,
}

impl LeaderLease {
    /// The lease in the daemon's namespace.
    pub fn new(client: Client, settings: &ClusterSettings) -> Self {
        Self {
            api: Api::namespaced(client, &settings.namespace),
            identity: settings.identity.clone(),
            lease_duration: settings.lease_duration,
        }
    }

    /// Returns when the lease is ours.
    pub async fn acquire(&self) {
        let mut seen = LeaseObserver::default();
        let mut trouble = String::new();
        loop {
            match self.try_acquire(&mut seen).await {
                Ok(true) => return,
                Ok(false) => trouble.clear(),
                Err(e) => {
                    let problem = error_chain(&e);
                    if problem != trouble {
                        warn!(error = problem, "cannot take the lease; trying again");
                        trouble = problem;
                    }
                }
            }
            sleep(self.retry_interval()).await;
        }
    }

    /// Keeps the lease; returns when it is lost, or may be.
    pub async fn renew_until_lost(&self) {
        let mut renewed = Instant::now();
        loop {
            sleep(self.retry_interval()).await;
            let asked = Instant::now();
            // A renewal that takes too long is none.
            let left = self.renew_deadline().saturating_sub(renewed.elapsed());
            match timeout(left, self.renew()).await {
                Ok(Ok(true)) => renewed = asked,
                Ok(Ok(false)) => return warn!("another replica holds the lease"),
                Ok(Err(e)) => debug!(error = %error_chain(&e), "the lease is not renewed yet"),
                Err(_) => {}
            }
            if renewed.elapsed() >= self.renew_deadline() {
                return warn!("the lease could not be renewed in time");
            }
        }
    }

    /// Let others have it at once.
    pub async fn release(&self) {
        let given = async {
            let lease = with_timeout(self.api.get(LEASE_NAME)).await?;
            if LeaseHolder::from_lease(&lease).is_some_and(|held| held.identity == self.identity) {
                with_timeout(self.api.replace(
                    LEASE_NAME,
                    &PostParams::default(),
                    &lease_object::release(lease),
                ))
                .await?;
            }
            Ok::<_, kube::Error>(())
        };
        if let Err(e) = given.await {
            debug!(error = %error_chain(&e), "the lease runs out by itself");
        }
    }

    async fn try_acquire(&self, seen: &mut LeaseObserver) -> kube::Result<bool> {
        let now = Timestamp::now();
        match with_timeout(self.api.get_opt(LEASE_NAME)).await? {
            None => {
                let new = lease_object::new_lease(LEASE_NAME, &self.identity, self.lease_duration, now);
                succeeded_unless_conflict(with_timeout(self.api.create(&PostParams::default(), &new)).await)
            }
            Some(lease) if seen.observe_availability(&lease, &self.identity, Instant::now()) => {
                let mine = lease_object::acquire(lease, &self.identity, self.lease_duration, now);
                // The version it was read at goes along: of two that try, one succeeds.
                succeeded_unless_conflict(
                    with_timeout(self.api.replace(LEASE_NAME, &PostParams::default(), &mine)).await,
                )
            }
            Some(_) => Ok(false),
        }
    }

    async fn renew(&self) -> kube::Result<bool> {
        let Some(lease) = self.api.get_opt(LEASE_NAME).await? else { return Ok(false) };
        if LeaseHolder::from_lease(&lease).is_none_or(|held| held.identity != self.identity) {
            return Ok(false);
        }
        let renewed = lease_object::renew(lease, Timestamp::now());
        succeeded_unless_conflict(self.api.replace(LEASE_NAME, &PostParams::default(), &renewed).await)
    }

    /// The pause between two attempts or renewals.
    fn retry_interval(&self) -> Duration {
        self.lease_duration / 5
    }

    /// How long a renewal is trusted here: less than others wait.
    fn renew_deadline(&self) -> Duration {
        self.lease_duration * 2 / 3
    }
}

fn succeeded_unless_conflict(answer: kube::Result<v1::Lease>) -> kube::Result<bool> {
    match answer {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(e) => Err(e),
    }
}
