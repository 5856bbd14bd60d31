//! Paces the writes of objects that others only read: at once when an object is quiet, gathered in a burst.

use parking_lot::Mutex;
use std::{collections::HashMap, time::Duration};
use tokio::time::Instant;

/// When each object was last written, and how long its next write waits.
#[derive(Debug)]
pub struct WritePacer {
    /// Pause after the first write of a quiet object, and the longest pause. The pause doubles while a burst lasts.
    pause: (Duration, Duration),
    last: Mutex<HashMap<String, (Instant, Duration)>>,
}

impl WritePacer {
    pub fn new(min: Duration, max: Duration) -> Self {
        Self { pause: (min, max), last: Mutex::default() }
    }

    /// Returns how long the next write of the object must wait; `None` if it may be written now.
    pub fn wait(&self, name: &str) -> Option<Duration> {
        let last = self.last.lock();
        let (at, pause) = last.get(name)?;
        pause.checked_sub(at.elapsed()).filter(|wait| !wait.is_zero())
    }

    /// Records a write, or an attempt to write.
    pub fn record(&self, name: &str) {
        let (mut last, now) = (self.last.lock(), Instant::now());
        let (min, max) = self.pause;
        let pause = match last.get(name) {
            Some((at, pause)) if at.elapsed() < *pause * 2 => (*pause * 2).min(max),
            _ => min,
        };
        last.insert(name.to_owned(), (now, pause));
    }

    /// Forgets objects for which `keep` is false, because they no longer exist.
    pub fn retain(&self, keep: impl Fn(&str) -> bool) {
        self.last.lock().retain(|name, _| keep(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::sleep;

    #[tokio::test(start_paused = true)]
    async fn a_quiet_object_is_written_at_once_and_a_burst_is_gathered() {
        let pacer = WritePacer::new(Duration::from_millis(500), Duration::from_secs(8));
        let mut writes = 0;
        for _ in 0..600 {
            if pacer.wait("p").is_none() {
                pacer.record("p");
                writes += 1;
            }
            sleep(Duration::from_millis(100)).await;
        }
        assert!((8..=14).contains(&writes), "{writes} writes in a minute of changes");
        assert_eq!(pacer.wait("other"), None);
        sleep(Duration::from_secs(20)).await;
        for _ in 0..3 {
            assert_eq!(pacer.wait("p"), None, "quiet again");
            pacer.record("p");
            sleep(Duration::from_millis(1500)).await;
        }
        pacer.retain(|_| false);
        assert_eq!(pacer.wait("p"), None);
    }
}
