//! Detects from Spiderpool's Lease whether Spiderpool is still running. While it is running, Ferroband does
//! not write Spiderpool's objects.

use crate::{Error, object_writes::get_object};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};

pub const SPIDERPOOL_LEASE: &str = "spiderpool-controller-leases";
/// Namespaces in which Spiderpool is usually installed.
const NAMESPACES: [&str; 2] = ["kube-system", "spiderpool"];

/// Whether a Lease named `lease` is held in at least one of `NAMESPACES`.
pub async fn is_held_anywhere(client: &Client, lease: &str) -> Result<bool, Error> {
    for namespace in NAMESPACES {
        let api: Api<Lease> = Api::namespaced(client.clone(), namespace);
        if get_object(&api, lease).await?.is_some_and(|lease| is_held(&lease)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the lease has a holder that renewed it within twice its duration.
fn is_held(lease: &Lease) -> bool {
    let Some(spec) = &lease.spec else { return false };
    let duration = i64::from(spec.lease_duration_seconds.unwrap_or(15));
    let holder = spec.holder_identity.as_deref().unwrap_or_default();
    let age = spec.renew_time.as_ref().map(|at| jiff::Timestamp::now().as_second() - at.0.as_second());
    !holder.is_empty() && age.is_some_and(|age| age < 2 * duration)
}
