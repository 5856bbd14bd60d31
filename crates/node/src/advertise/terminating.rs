//! Units that are no longer offered, but that somebody may still have.
//!
//! A configuration that changes, or virtual functions that are made anew, must not make the kubelet forget what a
//! running pod holds. Such a unit stays in the list, unhealthy, so that nobody else gets it.

use super::checkpoint::HeldDevices;
use crate::pools::{AdvertisedDevice, AdvertisedPool, DevicePool, DevicePoolKind};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

/// A function that vanishes stays listed for this long: most come back under the same address.
const GRACE_PERIOD: Duration = Duration::from_secs(60);

/// All that was offered, and when last.
#[derive(Debug, Default)]
pub struct TerminatingDevices {
    devices: BTreeMap<(String, String), RetainedDevice>,
    pending: bool,
}

#[derive(Debug)]
struct RetainedDevice {
    device: AdvertisedDevice,
    pool: Arc<DevicePool>,
    last_advertised: Instant,
}

impl TerminatingDevices {
    /// Add to `shares` what is leaving, and keep from one pool what is `held` under another's name.
    pub fn apply(&mut self, shares: &mut Vec<AdvertisedPool>, held: &HeldDevices, now: Instant) {
        self.pending = false;
        for share in shares.iter_mut() {
            let resource = share.pool.resource.to_string();
            for unit in &mut share.devices {
                let elsewhere =
                    |(key, _): (&(String, String), &String)| key.0 != resource && key.1 == unit.id;
                if is_function_pool(&share.pool) && held.iter().any(elsewhere) {
                    unit.healthy = false;
                    self.pending = true;
                }
                let known =
                    RetainedDevice { device: unit.clone(), pool: share.pool.clone(), last_advertised: now };
                self.devices.insert((resource.clone(), unit.id.clone()), known);
            }
        }
        self.devices.retain(|key, known| {
            let recent =
                is_function_pool(&known.pool) && now.duration_since(known.last_advertised) < GRACE_PERIOD;
            known.last_advertised == now || recent || held.contains_key(key)
        });
        for ((resource, _), known) in &self.devices {
            if known.last_advertised == now {
                continue;
            }
            self.pending = true;
            let unit = AdvertisedDevice { healthy: false, ..known.device.clone() };
            match shares.iter_mut().find(|share| share.pool.resource.to_string() == *resource) {
                Some(share) => share.devices.push(unit),
                None => shares.push(AdvertisedPool {
                    pool: known.pool.clone(),
                    devices: vec![unit],
                    files: Vec::new(),
                }),
            }
        }
    }

    /// Whether anything is leaving, or waits for a pod of another pool to end.
    pub fn is_pending(&self) -> bool {
        self.pending
    }
}

fn is_function_pool(pool: &DevicePool) -> bool {
    matches!(pool.kind, DevicePoolKind::Functions(_))
}
