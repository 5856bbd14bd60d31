//! Whether the system that we stand in for is still at work. Then its records are its own.

use crate::Error;
use ferroband_daemon::api_call::with_timeout;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};

/// The lease of Spiderpool's controller.
pub const SPIDERPOOL_LEASE: &str = "spiderpool-controller-leases";
/// Where such systems live.
const NAMESPACES: [&str; 2] = ["kube-system", "spiderpool"];

/// Whether somebody holds the lease.
pub async fn is_held_anywhere(client: &Client, lease: &str) -> Result<bool, Error> {
    for home in NAMESPACES {
        let api: Api<Lease> = Api::namespaced(client.clone(), home);
        let found = with_timeout(api.get_opt(lease))
            .await
            .map_err(Error::api("get", format!("Lease {home}/{lease}")))?;
        if found.is_some_and(|lease| is_held(&lease)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Renewed within twice the time that it counts.
fn is_held(lease: &Lease) -> bool {
    let Some(spec) = &lease.spec else { return false };
    let counts = i64::from(spec.lease_duration_seconds.unwrap_or(15));
    let holder = spec.holder_identity.as_deref().unwrap_or_default();
    let age = spec.renew_time.as_ref().map(|at| jiff::Timestamp::now().as_second() - at.0.as_second());
    !holder.is_empty() && age.is_some_and(|age| age < 2 * counts)
}
