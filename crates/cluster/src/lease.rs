//! Leader election: a Lease object that only one replica holds at a time.
//!
//! The holder renews the lease well before it expires. A holder that cannot renew stops leading *before* another
//! replica may start: the holder counts from when it sent its last successful renewal, the other replicas from when
//! they observed that renewal. Clocks of other hosts are not trusted. For a replica, the lease has expired when it has
//! observed the same renewal time for the whole duration of the lease.

mod lease_object;

use crate::ClusterSettings;
use ferroband_daemon::{Retry, api_call::with_timeout, error_chain, lengthened};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1;
use kube::{Api, Client, api::PostParams};
use lease_object::{LeaseHolder, LeaseObserver};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, warn};

const LEASE_NAME: &str = "ferroband-cluster";

/// This replica's view of the Lease `ferroband-cluster`, whose holder is the leader.
#[derive(Clone)]
pub struct LeaderLease {
    api: Api<v1::Lease>,
    identity: String,
    lease_duration: Duration,
}

impl LeaderLease {
    /// Uses the Lease in the daemon's namespace. Sends no request.
    pub fn new(client: Client, settings: &ClusterSettings) -> Self {
        Self {
            api: Api::namespaced(client, &settings.namespace),
            identity: settings.identity.clone(),
            lease_duration: settings.lease_duration,
        }
    }

    /// Waits until this replica holds the lease. Errors are logged and retried. Returns whether the lease was new, or was
    /// renewed shortly before. Then no etcd was restored since the previous leader: a backup has an old lease.
    pub async fn acquire(&self) -> bool {
        let mut observer = LeaseObserver::default();
        let mut retry = Retry::new(self.retry_interval(), self.retry_interval());
        loop {
            match self.try_acquire(&mut observer).await {
                Ok(Some(continues)) => return continues,
                Ok(None) => drop(retry.succeeded()),
                Err(e) => {
                    if let Some(error) = retry.news(&e) {
                        warn!(error, "cannot acquire the lease; retrying");
                    }
                }
            }
            sleep(lengthened(self.retry_interval())).await;
        }
    }

    /// Renews the lease periodically. Returns when another replica holds it, or may acquire it soon.
    pub async fn renew_until_lost(&self) {
        let mut renewed = Instant::now();
        loop {
            sleep(self.retry_interval()).await;
            let sent_at = Instant::now();
            // A renewal that is not confirmed before the deadline does not count.
            let remaining = self.renew_deadline().saturating_sub(renewed.elapsed());
            match timeout(remaining, self.renew()).await {
                Ok(Ok(true)) => renewed = sent_at,
                Ok(Ok(false)) => return warn!("another replica holds the lease; this replica stops leading"),
                Ok(Err(e)) => debug!(error = %error_chain(&e), "cannot renew the lease; retrying"),
                Err(_) => {}
            }
            if renewed.elapsed() >= self.renew_deadline() {
                return warn!("the lease was not renewed before its deadline; this replica stops leading");
            }
        }
    }

    /// Releases the lease, so that another replica can acquire it at once.
    pub async fn release(&self) {
        let released = async {
            let lease = with_timeout(self.api.get(LEASE_NAME)).await?;
            if LeaseHolder::from_lease(&lease).is_some_and(|holder| holder.identity == self.identity) {
                with_timeout(self.api.replace(
                    LEASE_NAME,
                    &PostParams::default(),
                    &lease_object::release(lease),
                ))
                .await?;
            }
            Ok::<_, kube::Error>(())
        };
        if let Err(e) = released.await {
            debug!(error = %error_chain(&e), "cannot release the lease; another replica can acquire it when it expires");
        }
    }

    /// Returns `None` if another replica holds the lease.
    async fn try_acquire(&self, observer: &mut LeaseObserver) -> kube::Result<Option<bool>> {
        let now = Timestamp::now();
        let (acquired, continues) = match with_timeout(self.api.get_opt(LEASE_NAME)).await? {
            None => {
                let new = lease_object::new_lease(LEASE_NAME, &self.identity, self.lease_duration, now);
                let created = with_timeout(self.api.create(&PostParams::default(), &new)).await;
                (succeeded_unless_conflict(created)?, true)
            }
            Some(lease) if observer.observe_availability(&lease, &self.identity, Instant::now()) => {
                let continues = lease_object::was_renewed_recently(&lease, now, self.lease_duration * 4);
                let acquired = lease_object::acquire(lease, &self.identity, self.lease_duration, now);
                // The object has the resourceVersion that was read. If two replicas try to replace it, only one
                // succeeds.
                let replaced =
                    with_timeout(self.api.replace(LEASE_NAME, &PostParams::default(), &acquired)).await;
                (succeeded_unless_conflict(replaced)?, continues)
            }
            Some(_) => (false, false),
        };
        Ok(acquired.then_some(continues))
    }

    async fn renew(&self) -> kube::Result<bool> {
        let Some(lease) = self.api.get_opt(LEASE_NAME).await? else { return Ok(false) };
        if LeaseHolder::from_lease(&lease).is_none_or(|holder| holder.identity != self.identity) {
            return Ok(false);
        }
        let renewed = lease_object::renew(lease, Timestamp::now());
        succeeded_unless_conflict(self.api.replace(LEASE_NAME, &PostParams::default(), &renewed).await)
    }

    /// Interval between two attempts to acquire the lease, and between two renewals.
    fn retry_interval(&self) -> Duration {
        self.lease_duration / 5
    }

    /// How long the holder relies on a renewal. Other replicas wait longer, for the whole duration of the lease.
    fn renew_deadline(&self) -> Duration {
        self.lease_duration * 2 / 3
    }
}

fn succeeded_unless_conflict(result: kube::Result<v1::Lease>) -> kube::Result<bool> {
    match result {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(e) => Err(e),
    }
}
