//! Units that are no longer offered, but that somebody may still have.
//!
//! A configuration that changes, or virtual functions that are made anew, must not make the kubelet forget what a
//! running pod holds. Such a unit stays in the list, unhealthy, so that nobody else gets it.

use super::held::Held;
use crate::pools::{Kind, Pool, Share, Unit};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

/// A function that vanishes stays listed for this long: most come back under the same address.
const GRACE: Duration = Duration::from_secs(60);

/// All that was offered, and when last.
#[derive(Debug, Default)]
pub struct Leaving {
    known: BTreeMap<(String, String), Known>,
    any: bool,
}

#[derive(Debug)]
struct Known {
    unit: Unit,
    pool: Arc<Pool>,
    last: Instant,
}

impl Leaving {
    /// Add to `shares` what is leaving, and keep from one pool what is `held` under another's name.
    pub fn apply(&mut self, shares: &mut Vec<Share>, held: &Held, now: Instant) {
        self.any = false;
        for share in shares.iter_mut() {
            let resource = share.pool.resource.to_string();
            for unit in &mut share.units {
                let elsewhere =
                    |(key, _): (&(String, String), &String)| key.0 != resource && key.1 == unit.id;
                if is_functions(&share.pool) && held.iter().any(elsewhere) {
                    unit.healthy = false;
                    self.any = true;
                }
                let known = Known { unit: unit.clone(), pool: share.pool.clone(), last: now };
                self.known.insert((resource.clone(), unit.id.clone()), known);
            }
        }
        self.known.retain(|key, known| {
            let recent = is_functions(&known.pool) && now.duration_since(known.last) < GRACE;
            known.last == now || recent || held.contains_key(key)
        });
        for ((resource, _), known) in &self.known {
            if known.last == now {
                continue;
            }
            self.any = true;
            let unit = Unit { healthy: false, ..known.unit.clone() };
            match shares.iter_mut().find(|share| share.pool.resource.to_string() == *resource) {
                Some(share) => share.units.push(unit),
                None => shares.push(Share { pool: known.pool.clone(), units: vec![unit], files: Vec::new() }),
            }
        }
    }

    /// Whether anything is leaving, or waits for a pod of another pool to end.
    pub fn any(&self) -> bool {
        self.any
    }
}

fn is_functions(pool: &Pool) -> bool {
    matches!(pool.kind, Kind::Functions(_))
}
