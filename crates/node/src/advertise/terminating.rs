//! Devices that are no longer in a pool but may still be held by a pod.
//!
//! A changed configuration or recreated virtual functions must not make the kubelet forget what a running pod
//! holds. Such a device stays in the device list of the kubelet as unhealthy, so that no other pod gets it.

use crate::{
    kubelet::HeldDevices,
    pools::{AdvertisedDevice, AdvertisedPool, DevicePool, DevicePoolKind},
};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

/// How long a removed function stays in the device list of the kubelet. Most functions come back at the same
/// PCI address.
const GRACE_PERIOD: Duration = Duration::from_secs(60);

/// The devices advertised so far, by resource name and device id, and when each was last in a pool.
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
    /// Adds the terminating devices to `pools` as unhealthy. Also marks a device as unhealthy if a pod holds
    /// it under another resource name, according to `held`.
    pub fn apply(&mut self, pools: &mut Vec<AdvertisedPool>, held: &HeldDevices, now: Instant) {
        self.pending = false;
        for advertised in pools.iter_mut() {
            let resource = advertised.pool.resource.to_string();
            for device in &mut advertised.devices {
                let elsewhere =
                    |(key, _): (&(String, String), &String)| key.0 != resource && key.1 == device.id;
                if is_function_pool(&advertised.pool) && held.iter().any(elsewhere) {
                    device.healthy = false;
                    self.pending = true;
                }
                let retained = RetainedDevice {
                    device: device.clone(),
                    pool: advertised.pool.clone(),
                    last_advertised: now,
                };
                self.devices.insert((resource.clone(), device.id.clone()), retained);
            }
        }
        self.devices.retain(|key, retained| {
            let recent = is_function_pool(&retained.pool)
                && now.duration_since(retained.last_advertised) < GRACE_PERIOD;
            retained.last_advertised == now || recent || held.contains_key(key)
        });
        for ((resource, _), retained) in &self.devices {
            if retained.last_advertised == now {
                continue;
            }
            self.pending = true;
            let device = AdvertisedDevice { healthy: false, ..retained.device.clone() };
            match pools.iter_mut().find(|advertised| advertised.pool.resource.to_string() == *resource) {
                Some(advertised) => advertised.devices.push(device),
                None => pools.push(AdvertisedPool {
                    pool: retained.pool.clone(),
                    devices: vec![device],
                    files: Vec::new(),
                }),
            }
        }
    }

    /// Whether at least one device is terminating, or is unhealthy because a pod holds it under another
    /// resource name.
    pub fn is_pending(&self) -> bool {
        self.pending
    }
}

fn is_function_pool(pool: &DevicePool) -> bool {
    matches!(pool.kind, DevicePoolKind::Functions(_))
}
