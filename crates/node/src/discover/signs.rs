//! Signs that the hardware may have changed: the kernel's events, or a simulation's.

use crate::error::chain;
use ferroband_kernel::{Change, Hardware, Watch};
use std::{future::pending, thread, time::Duration};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};
use tracing::warn;

/// A driver makes the parts of a device one after the other, and udev their files; this long it must be quiet,
const QUIET: Duration = Duration::from_millis(50);
/// unless it never gets quiet: a hundred virtual functions take seconds to make.
const LONGEST: Duration = Duration::from_millis(300);

/// How many signs may wait; the kernel keeps more.
const ROOM: usize = 64;
/// After so long without a sign the thread looks whether anybody listens.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sign {
    /// An interface came, went or changed; most are pods'.
    Interfaces,
    /// A device came, went or changed.
    Devices,
}

/// Hears signs; deaf where the kernel does not let us listen.
pub struct Signs(Option<mpsc::Receiver<Sign>>);

impl Signs {
    /// From now on, of this hardware. To be called in the host's network namespace.
    pub fn of(hardware: &dyn Hardware) -> Self {
        let (tell, told) = mpsc::channel(ROOM);
        let listening = hardware.watch().map_err(|e| chain(&e)).and_then(|watch| {
            let thread = thread::Builder::new().name("signs".to_owned());
            thread.spawn(move || listen(watch, &tell)).map_err(|e| e.to_string())
        });
        match listening {
            Ok(_) => Self(Some(told)),
            Err(error) => {
                deaf(&error);
                Self(None)
            }
        }
    }

    /// Whether signs can be heard at all.
    pub fn deaf(&self) -> bool {
        self.0.is_none()
    }

    /// The next sign. Nothing is lost when this is dropped while it waits.
    pub async fn next(&mut self) -> Sign {
        let Some(told) = &mut self.0 else { return pending().await };
        match told.recv().await {
            Some(sign) => sign,
            None => {
                self.0 = None;
                Sign::Devices
            }
        }
    }

    /// Waits until it is quiet; says what was heard meanwhile.
    pub async fn settle(&mut self) -> Option<Sign> {
        let begin = Instant::now();
        let mut heard = None;
        while begin.elapsed() < LONGEST {
            match timeout(QUIET, self.next()).await {
                Ok(sign) => heard = heard.max(Some(sign)),
                Err(_) => break,
            }
        }
        heard
    }
}

/// Hands on what is heard until nobody wants it. A thread of its own: the descriptor to wait for is the kernel crate's,
/// and a runtime takes only those that it can prove to be open.
fn listen(mut watch: Watch, tell: &mpsc::Sender<Sign>) {
    while !tell.is_closed() {
        let sign = match watch.wait(PATIENCE) {
            Ok(None) => continue,
            Ok(Some(Change::Device { subsystem, .. })) if subsystem == "net" => Sign::Interfaces,
            Ok(Some(Change::Device { .. } | Change::Lost)) => Sign::Devices,
            Ok(Some(Change::Link(_) | Change::LinkGone(_))) => Sign::Interfaces,
            Err(e) => return deaf(&chain(&e)),
        };
        if tell.blocking_send(sign).is_err() {
            return;
        }
    }
}

fn deaf(error: &str) {
    warn!(error, "the kernel's events cannot be heard; looking at the hardware often instead");
}
