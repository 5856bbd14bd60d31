//! Reading and writing the Lease object, and detecting its expiry.

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::core::ObjectMeta;
use std::time::Duration;
use tokio::time::Instant;

pub struct LeaseHolder {
    pub identity: String,
    pub lease_duration: Duration,
    /// Time of the last renewal, by the holder's clock.
    pub renew_time: Option<Timestamp>,
}

impl LeaseHolder {
    /// Reads the holder from the spec of the Lease. Returns `None` if the lease has no holder.
    pub fn from_lease(lease: &Lease) -> Option<Self> {
        let spec = lease.spec.as_ref()?;
        let identity = spec.holder_identity.clone().filter(|holder| !holder.is_empty())?;
        let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or_default()).unwrap_or_default();
        let renew_time = spec.renew_time.as_ref().map(|time| time.0);
        Some(Self { identity, lease_duration: Duration::from_secs(seconds), renew_time })
    }
}

/// What a waiting replica last observed: the holder, its renewal time, and when this renewal time was first observed.
#[derive(Default)]
pub struct LeaseObserver {
    last: Option<(String, Option<Timestamp>, Instant)>,
}

impl LeaseObserver {
    /// Records the holder and the renewal time of `lease`, and returns whether `me` may acquire it now.
    pub fn observe_availability(&mut self, lease: &Lease, me: &str, now: Instant) -> bool {
        let Some(holder) = LeaseHolder::from_lease(lease) else { return true };
        if holder.identity == me {
            // The holder is an earlier process of this pod, which no longer runs.
            return true;
        }
        match &self.last {
            Some((identity, renew_time, since))
                if *identity == holder.identity && *renew_time == holder.renew_time =>
            {
                now.duration_since(*since) >= holder.lease_duration
            }
            _ => {
                self.last = Some((holder.identity, holder.renew_time, now));
                false
            }
        }
    }
}

/// Whether the lease was renewed at most `limit` before `now`, by the clocks of its last holder and of this replica.
pub fn was_renewed_recently(lease: &Lease, now: Timestamp, limit: Duration) -> bool {
    let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref());
    renewed.is_some_and(|renewed| {
        let age = now.as_second().saturating_sub(renewed.0.as_second());
        u64::try_from(age).is_ok_and(|age| age <= limit.as_secs())
    })
}

/// Builds a new Lease object that `me` holds.
pub fn new_lease(name: &str, me: &str, duration: Duration, now: Timestamp) -> Lease {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    acquire(Lease { metadata, spec: None }, me, duration, now)
}

/// Returns the Lease with `me` as its holder, renewed at `now`. A change of holder increments the transition count.
pub fn acquire(mut lease: Lease, me: &str, duration: Duration, now: Timestamp) -> Lease {
    let before = lease.spec.take().unwrap_or_default();
    let changed = before.holder_identity.as_deref() != Some(me);
    let seconds = i32::try_from(duration.as_secs().max(1)).unwrap_or(i32::MAX);
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

/// Returns the Lease with the renewal time `now`.
pub fn renew(mut lease: Lease, now: Timestamp) -> Lease {
    lease.spec.get_or_insert_default().renew_time = Some(MicroTime(now));
    lease
}

/// Returns the Lease without a holder.
pub fn release(mut lease: Lease) -> Lease {
    lease.spec.get_or_insert_default().holder_identity = None;
    lease
}

#[cfg(test)]
mod tests {
    use super::*;

    const DURATION: Duration = Duration::from_secs(15);

    #[test]
    fn a_lease_of_a_backup_was_not_renewed_recently() {
        let at = |second: i64| Timestamp::from_second(1_000_000 + second).unwrap();
        let lease = release(new_lease("l", "a", DURATION, at(0)));
        let recent = |second| was_renewed_recently(&lease, at(second), Duration::from_secs(60));
        assert_eq!([0, 60, 61, -1].map(recent), [true, true, false, false]);
        assert!(!was_renewed_recently(&Lease::default(), at(0), DURATION));
    }

    #[test]
    fn a_lease_expires_when_it_was_not_renewed_for_its_duration() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let time = |seconds| Timestamp::from_second(seconds).unwrap();
        // The holder's clock is years behind. The lease must not count as expired, because only the time
        // since this renewal was first observed matters.
        let lease = new_lease("l", "other", DURATION, time(5));
        let mut observer = LeaseObserver::default();
        assert!(!observer.observe_availability(&lease, "me", at(0)));
        assert!(!observer.observe_availability(&lease, "me", at(14)));
        let renewed = renew(lease.clone(), time(19));
        assert!(!observer.observe_availability(&renewed, "me", at(16)), "renewed in between");
        assert!(!observer.observe_availability(&renewed, "me", at(30)));
        assert!(observer.observe_availability(&renewed, "me", at(31)));
        assert!(
            LeaseObserver::default().observe_availability(&lease, "other", at(0)),
            "held by a former process of this replica"
        );
        assert!(LeaseObserver::default().observe_availability(&release(lease), "me", at(0)));
    }

    #[test]
    fn holder_changes_are_counted() {
        let now = Timestamp::UNIX_EPOCH;
        let mut lease = new_lease("l", "a", DURATION, now);
        for (who, count) in [("a", 1), ("b", 2), ("b", 2), ("a", 3)] {
            lease = acquire(lease, who, DURATION, now);
            assert_eq!(lease.spec.as_ref().unwrap().lease_transitions, Some(count), "{who}");
        }
        assert_eq!(
            LeaseHolder::from_lease(&lease).map(|holder| (holder.identity, holder.lease_duration)),
            Some(("a".to_owned(), DURATION))
        );
    }
}
