//! Deferred termination signals.
//!
//! A signal that ended the process at any instruction would leave half a step behind for the next DEL.
//! Therefore termination signals are blocked and checked between the steps of an ADD, which then rolls back;
//! other commands run to completion. Child plugins inherit the mask, so they are not interrupted either.
//! `SIGKILL` cannot be blocked. After it, DEL cleans up from the journal.

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::cell::Cell;

/// SIGTERM, SIGINT and SIGHUP, blocked in this thread and the threads it starts.
#[derive(Debug)]
pub struct DeferredSignals {
    pending: SignalFd,
    received: Cell<bool>,
}

impl DeferredSignals {
    /// Block the signals. Call this before starting any thread.
    pub fn block() -> Result<Self, Errno> {
        let mut set = SigSet::empty();
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
            set.add(signal);
        }
        set.thread_block()?;
        let pending = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self { pending, received: Cell::new(false) })
    }

    /// Whether one of the blocked signals has arrived since [`Self::block`].
    pub fn received(&self) -> bool {
        let received = self.received.get() || matches!(self.pending.read_signal(), Ok(Some(_)));
        self.received.set(received);
        received
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_signal_is_reported_and_does_not_kill() {
        // Use a separate thread, because `block` changes its signal mask for good.
        std::thread::spawn(|| {
            let signals = DeferredSignals::block().unwrap();
            assert!(!signals.received());
            nix::sys::signal::raise(Signal::SIGTERM).unwrap();
            assert!(signals.received() && signals.received());
        })
        .join()
        .unwrap();
    }
}
