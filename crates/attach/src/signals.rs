//! Being asked to stop.
//!
//! A signal that ends the process at any instruction would leave half a step behind, to be cleared by the next
//! DEL. So the signals that ask politely are held back and looked at between the steps of an ADD, which then
//! undoes itself; everything else runs to its end. Plugins that we start inherit this and are not cut off either.
//! `SIGKILL` cannot be held back: that is what the journal is for.

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::cell::Cell;

/// The signals that ask politely, held back from this thread and those it starts.
#[derive(Debug)]
pub struct DeferredSignals {
    pending: SignalFd,
    received: Cell<bool>,
}

impl DeferredSignals {
    /// Hold them back. To be called before any thread is started.
    pub fn block() -> Result<Self, Errno> {
        let mut set = SigSet::empty();
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
            set.add(signal);
        }
        set.thread_block()?;
        let pending = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self { pending, received: Cell::new(false) })
    }

    /// Whether one has come.
    pub fn received(&self) -> bool {
        let come = self.received.get() || matches!(self.pending.read_signal(), Ok(Some(_)));
        self.received.set(come);
        come
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_seen_and_does_not_kill() {
        // On a thread of its own, because the mask stays.
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
