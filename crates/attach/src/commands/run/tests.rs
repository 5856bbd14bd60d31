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
