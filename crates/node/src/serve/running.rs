//! Limits the number of concurrent CNI calls.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Counts the running CNI calls, limits their number, and can wait until none is running. Clones share the
/// count.
#[derive(Clone, Debug)]
pub struct CallLimiter {
    shared: Arc<(Mutex<usize>, Condvar)>,
    max_calls: usize,
}

/// The slot of a running CNI call. Dropping the permit frees the slot.
#[derive(Debug)]
pub struct CallPermit(Arc<(Mutex<usize>, Condvar)>);

impl CallLimiter {
    pub fn new(most: usize) -> Self {
        Self { shared: Arc::default(), max_calls: most }
    }

    /// Takes a slot for a CNI call. Blocks until a slot is free.
    pub fn acquire(&self) -> CallPermit {
        let (count, changed) = &*self.shared;
        let count = count.lock().unwrap_or_else(PoisonError::into_inner);
        let mut count = changed
            .wait_while(count, |count| *count >= self.max_calls)
            .unwrap_or_else(PoisonError::into_inner);
        *count += 1;
        CallPermit(self.shared.clone())
    }

    /// Waits until no call is running. Returns `false` if that takes longer than `patience`.
    pub fn wait_idle(&self, patience: Duration) -> bool {
        let (count, changed) = &*self.shared;
        let end = Instant::now() + patience;
        let mut count = count.lock().unwrap_or_else(PoisonError::into_inner);
        while *count > 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            count = changed.wait_timeout(count, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        let (count, changed) = &*self.0;
        *count.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        changed.notify_all();
    }
}
