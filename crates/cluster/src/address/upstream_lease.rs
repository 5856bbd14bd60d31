//! Detects from Spiderpool's Lease whether Spiderpool is still running. While it is running, Ferroband neither writes
//! Spiderpool's objects nor assigns addresses of its pools.

use crate::{Error, object_writes::get_object};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

const SPIDERPOOL_LEASE: &str = "spiderpool-controller-leases";
/// Namespaces in which Spiderpool is usually installed.
const NAMESPACES: [&str; 2] = ["kube-system", "spiderpool"];
/// How long an answer is used. Controllers run on every change of an address block, and the Lease changes rarely.
const MAX_AGE: Duration = Duration::from_secs(5);

/// Spiderpool's Lease, read at most once per [`MAX_AGE`] for all controllers.
pub struct SpiderpoolLease {
    client: Client,
    last: Mutex<Option<(Instant, Option<&'static str>)>>,
}

impl SpiderpoolLease {
    pub fn new(client: Client) -> Self {
        Self { client, last: Mutex::default() }
    }

    /// Returns the Lease as `<namespace>/<name>` if Spiderpool's controller holds it.
    pub async fn holder(&self) -> Result<Option<String>, Error> {
        let mut last = self.last.lock().await;
        let known = last.filter(|(at, _)| at.elapsed() < MAX_AGE);
        let namespace = match known {
            Some((_, namespace)) => namespace,
            None => {
                let found = self.find().await?;
                *last = Some((Instant::now(), found));
                found
            }
        };
        Ok(namespace.map(|namespace| format!("{namespace}/{SPIDERPOOL_LEASE}")))
    }

    async fn find(&self) -> Result<Option<&'static str>, Error> {
        for namespace in NAMESPACES {
            let api: Api<Lease> = Api::namespaced(self.client.clone(), namespace);
            if get_object(&api, SPIDERPOOL_LEASE).await?.is_some_and(|lease| is_held(&lease)) {
                return Ok(Some(namespace));
            }
        }
        Ok(None)
    }
}

/// Whether the lease has a holder that renewed it within twice its duration.
fn is_held(lease: &Lease) -> bool {
    let Some(spec) = &lease.spec else { return false };
    let duration = i64::from(spec.lease_duration_seconds.unwrap_or(15));
    let holder = spec.holder_identity.as_deref().unwrap_or_default();
    let age = spec.renew_time.as_ref().map(|at| jiff::Timestamp::now().as_second() - at.0.as_second());
    !holder.is_empty() && age.is_some_and(|age| age < 2 * duration)
}
