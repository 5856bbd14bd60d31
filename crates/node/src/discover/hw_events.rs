//! Notifications of possible hardware changes, from the kernel or from simulated hardware.

use crate::error::error_chain;
use ferroband_kernel::{Hardware, HardwareEvent, HardwareWatch};
use std::{future::pending, thread, time::Duration};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};
use tracing::warn;

/// A driver creates the parts of a device one by one, and udev creates the device files. The device is considered
/// complete after this time without an event.
const QUIET_PERIOD: Duration = Duration::from_millis(50);
/// Maximum time to wait for a quiet period. Creating a hundred virtual functions causes events for seconds.
const MAX_SETTLE_TIME: Duration = Duration::from_millis(300);

/// Capacity of the event queue. Further events stay in the buffer of the kernel's socket.
const QUEUE_LENGTH: usize = 64;
/// Interval at which the event thread checks whether the receiver still exists.
const WAIT_TIMEOUT: Duration = Duration::from_secs(5);

/// What may have changed. A later variant requires more work, so `wait_quiet` returns the greatest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiscoveryEvent {
    /// A network interface was added, removed or changed. Most interfaces belong to pods and do not matter.
    Interfaces,
    /// A device was added, removed or changed, or events were lost.
    Devices,
}

/// A subscription to hardware events; `None` if the kernel denies it.
pub struct DiscoveryEvents(Option<mpsc::Receiver<DiscoveryEvent>>);

impl DiscoveryEvents {
    /// Subscribes to events. Must be called in the host network namespace.
    pub fn subscribe(hardware: &dyn Hardware) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE_LENGTH);
        let started = hardware.watch().map_err(|e| error_chain(&e)).and_then(|watch| {
            let thread = thread::Builder::new().name("hw-events".to_owned());
            thread.spawn(move || forward_events(watch, &sender)).map_err(|e| e.to_string())
        });
        match started {
            Ok(_) => Self(Some(receiver)),
            Err(error) => {
                warn_unavailable(&error);
                Self(None)
            }
        }
    }

    /// Whether the subscription failed, so that the hardware must be polled.
    pub fn is_unavailable(&self) -> bool {
        self.0.is_none()
    }

    /// Waits for the next event. Never returns if events are unavailable. Cancel safe.
    pub async fn next(&mut self) -> DiscoveryEvent {
        let Some(receiver) = &mut self.0 else { return pending().await };
        match receiver.recv().await {
            Some(event) => event,
            None => {
                self.0 = None;
                DiscoveryEvent::Devices
            }
        }
    }

    /// Waits until no event arrives for `QUIET_PERIOD`, at most `MAX_SETTLE_TIME`. Returns the greatest event
    /// that arrived, or `None` if no event arrived.
    pub async fn wait_quiet(&mut self) -> Option<DiscoveryEvent> {
        let begin = Instant::now();
        let mut latest = None;
        while begin.elapsed() < MAX_SETTLE_TIME {
            match timeout(QUIET_PERIOD, self.next()).await {
                Ok(event) => latest = latest.max(Some(event)),
                Err(_) => break,
            }
        }
        latest
    }
}

/// Forwards events until the receiver is dropped. Runs on its own thread, because `watch.wait` blocks. Tokio's
/// `AsyncFd` needs `AsRawFd`, which `HardwareWatch` does not implement.
fn forward_events(mut watch: HardwareWatch, sender: &mpsc::Sender<DiscoveryEvent>) {
    while !sender.is_closed() {
        let event = match watch.wait(WAIT_TIMEOUT) {
            Ok(None) => continue,
            Ok(Some(HardwareEvent::Device { subsystem, .. })) if subsystem == "net" => {
                DiscoveryEvent::Interfaces
            }
            Ok(Some(HardwareEvent::Device { .. } | HardwareEvent::Lost)) => DiscoveryEvent::Devices,
            Ok(Some(HardwareEvent::LinkChanged(_) | HardwareEvent::LinkRemoved(_))) => {
                DiscoveryEvent::Interfaces
            }
            Err(e) => return warn_unavailable(&error_chain(&e)),
        };
        if sender.blocking_send(event).is_err() {
            return;
        }
    }
}

fn warn_unavailable(error: &str) {
    warn!(error, "no hardware events from the kernel, polling the hardware instead");
}
