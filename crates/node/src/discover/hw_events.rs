//! Signs that the hardware may have changed: the kernel's events, or a simulation's.

use crate::error::error_chain;
use ferroband_kernel::{Hardware, HardwareEvent, HardwareWatch};
use std::{future::pending, thread, time::Duration};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};
use tracing::warn;

/// A driver makes the parts of a device one after the other, and udev their files; this long it must be quiet,
const QUIET_PERIOD: Duration = Duration::from_millis(50);
/// unless it never gets quiet: a hundred virtual functions take seconds to make.
const MAX_SETTLE_TIME: Duration = Duration::from_millis(300);

/// How many signs may wait; the kernel keeps more.
const QUEUE_LENGTH: usize = 64;
/// After so long without a sign the thread looks whether anybody listens.
const WAIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Where to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiscoveryEvent {
    /// An interface came, went or changed; most are pods'.
    Interfaces,
    /// A device came, went or changed.
    Devices,
}

/// Hears signs; deaf where the kernel does not let us listen.
pub struct DiscoveryEvents(Option<mpsc::Receiver<DiscoveryEvent>>);

impl DiscoveryEvents {
    /// From now on, of this hardware. To be called in the host's network namespace.
    pub fn subscribe(hardware: &dyn Hardware) -> Self {
        let (tell, told) = mpsc::channel(QUEUE_LENGTH);
        let listening = hardware.watch().map_err(|e| error_chain(&e)).and_then(|watch| {
            let thread = thread::Builder::new().name("signs".to_owned());
            thread.spawn(move || forward_events(watch, &tell)).map_err(|e| e.to_string())
        });
        match listening {
            Ok(_) => Self(Some(told)),
            Err(error) => {
                warn_unavailable(&error);
                Self(None)
            }
        }
    }

    /// Whether signs can be heard at all.
    pub fn is_unavailable(&self) -> bool {
        self.0.is_none()
    }

    /// The next sign. Nothing is lost when this is dropped while it waits.
    pub async fn next(&mut self) -> DiscoveryEvent {
        let Some(told) = &mut self.0 else { return pending().await };
        match told.recv().await {
            Some(sign) => sign,
            None => {
                self.0 = None;
                DiscoveryEvent::Devices
            }
        }
    }

    /// Waits until it is quiet; says what was heard meanwhile.
    pub async fn wait_quiet(&mut self) -> Option<DiscoveryEvent> {
        let begin = Instant::now();
        let mut heard = None;
        while begin.elapsed() < MAX_SETTLE_TIME {
            match timeout(QUIET_PERIOD, self.next()).await {
                Ok(sign) => heard = heard.max(Some(sign)),
                Err(_) => break,
            }
        }
        heard
    }
}

/// Hands on what is heard until nobody wants it. A thread of its own: the descriptor to wait for is the kernel crate's,
/// and a runtime takes only those that it can prove to be open.
fn forward_events(mut watch: HardwareWatch, tell: &mpsc::Sender<DiscoveryEvent>) {
    while !tell.is_closed() {
        let sign = match watch.wait(WAIT_TIMEOUT) {
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
        if tell.blocking_send(sign).is_err() {
            return;
        }
    }
}

fn warn_unavailable(error: &str) {
    warn!(error, "the kernel's events cannot be heard; looking at the hardware often instead");
}
