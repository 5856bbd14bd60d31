//! How many calls are running.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Counts calls, bounds them, and lets somebody wait for their end.
#[derive(Clone, Debug)]
pub struct Running {
    shared: Arc<(Mutex<usize>, Condvar)>,
    most: usize,
}

/// One running call; it ends when this is dropped.
#[derive(Debug)]
pub struct Call(Arc<(Mutex<usize>, Condvar)>);

impl Running {
    /// None yet, and never more than `most`.
    pub fn at_most(most: usize) -> Self {
        Self { shared: Arc::default(), most }
    }

    /// Begin a call, waiting for room.
    pub fn begin(&self) -> Call {
        let (count, changed) = &*self.shared;
        let count = count.lock().unwrap_or_else(PoisonError::into_inner);
        let mut count =
            changed.wait_while(count, |count| *count >= self.most).unwrap_or_else(PoisonError::into_inner);
        *count += 1;
        Call(self.shared.clone())
    }

    /// Wait until none is running; `false` if that takes longer than `patience`.
    pub fn wait(&self, patience: Duration) -> bool {
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

impl Drop for Call {
    fn drop(&mut self) {
        let (count, changed) = &*self.0;
        *count.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        changed.notify_all();
    }
}
