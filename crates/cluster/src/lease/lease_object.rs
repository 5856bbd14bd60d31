//! What stands in the Lease object, and when it has run out.

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::core::ObjectMeta;
use std::time::Duration;
use tokio::time::Instant;

/// A lease that somebody holds.
pub struct LeaseHolder {
    /// Who.
    pub identity: String,
    /// How long it counts.
    pub lease_duration: Duration,
    /// When the holder last said so, by the holder's clock.
    pub renew_time: Option<Timestamp>,
}

impl LeaseHolder {
    /// Of the object; `None` if nobody holds it.
    pub fn from_lease(lease: &Lease) -> Option<Self> {
        let spec = lease.spec.as_ref()?;
        let by = spec.holder_identity.clone().filter(|holder| !holder.is_empty())?;
        let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or_default()).unwrap_or_default();
        let renewed = spec.renew_time.as_ref().map(|time| time.0);
        Some(Self { identity: by, lease_duration: Duration::from_secs(seconds), renew_time: renewed })
    }
}

/// What a replica that waits has seen of the holder.
#[derive(Default)]
pub struct LeaseObserver {
    last: Option<(String, Option<Timestamp>, Instant)>,
}

impl LeaseObserver {
    /// Whether `me` may take the lease now.
    pub fn observe_availability(&mut self, lease: &Lease, me: &str, now: Instant) -> bool {
        let Some(held) = LeaseHolder::from_lease(lease) else { return true };
        if held.identity == me {
            // From before a restart under the same name: the process that held it is gone.
            return true;
        }
        match &self.last {
            Some((by, renewed, since)) if *by == held.identity && *renewed == held.renew_time => {
                now.duration_since(*since) >= held.lease_duration
            }
            _ => {
                self.last = Some((held.identity, held.renew_time, now));
                false
            }
        }
    }
}

/// A lease of `me`, not there yet.
pub fn new_lease(name: &str, me: &str, length: Duration, now: Timestamp) -> Lease {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    acquire(Lease { metadata, spec: None }, me, length, now)
}

/// The same object, held by `me` from `now`.
pub fn acquire(mut lease: Lease, me: &str, length: Duration, now: Timestamp) -> Lease {
    let before = lease.spec.take().unwrap_or_default();
    let changed = before.holder_identity.as_deref() != Some(me);
    let seconds = i32::try_from(length.as_secs().max(1)).unwrap_or(i32::MAX);
    lease.spec = Some(LeaseSpec {
        holder_identity: Some(me.to_owned()),
        lease_duration_seconds: Some(seconds),
        acquire_time: Some(MicroTime(now)),
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(before.lease_transitions.unwrap_or_default() + i32::from(changed)),
        ..before
    });
    lease
}

/// The same object, renewed.
pub fn renew(mut lease: Lease, now: Timestamp) -> Lease {
    lease.spec.get_or_insert_default().renew_time = Some(MicroTime(now));
    lease
}

/// The same object, held by nobody.
pub fn release(mut lease: Lease) -> Lease {
    lease.spec.get_or_insert_default().holder_identity = None;
    lease
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_secs(15);

    #[test]
    fn a_lease_has_run_out_when_its_holder_was_silent_for_its_length() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let time = |seconds| Timestamp::from_second(seconds).unwrap();
        // The holder's clock is years off: it does not matter.
        let theirs = new_lease("l", "other", LENGTH, time(5));
        let mut seen = LeaseObserver::default();
        assert!(!seen.observe_availability(&theirs, "me", at(0)));
        assert!(!seen.observe_availability(&theirs, "me", at(14)));
        let renewed = renew(theirs.clone(), time(19));
        assert!(!seen.observe_availability(&renewed, "me", at(16)), "it was renewed in between");
        assert!(!seen.observe_availability(&renewed, "me", at(30)));
        assert!(seen.observe_availability(&renewed, "me", at(31)));
        assert!(LeaseObserver::default().observe_availability(&theirs, "other", at(0)), "my own from before");
        assert!(LeaseObserver::default().observe_availability(&release(theirs), "me", at(0)));
    }

    #[test]
    fn changes_of_the_holder_are_counted() {
        let now = Timestamp::UNIX_EPOCH;
        let mut lease = new_lease("l", "a", LENGTH, now);
        for (who, count) in [("a", 1), ("b", 2), ("b", 2), ("a", 3)] {
            lease = acquire(lease, who, LENGTH, now);
            assert_eq!(lease.spec.as_ref().unwrap().lease_transitions, Some(count), "{who}");
        }
        assert_eq!(
            LeaseHolder::from_lease(&lease).map(|held| (held.identity, held.lease_duration)),
            Some(("a".to_owned(), LENGTH))
        );
    }
}
