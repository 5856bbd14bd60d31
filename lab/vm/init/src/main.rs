//! The init process of the lab's emulated machine.
//!
//! ```text
//!  kernel ──▶ mount ──▶ fabric up ──┬─ mode test:  each test ─▶ settle ─▶ VERDICT line ─▶ power off
//!                                   ├─ mode shell: a shell on the console ─▶ power off
//!                                   ├─ mode peer:  serve the tests of another machine
//!                                   └─ mode node:  run as a cluster node until the power is cut
//! ```
//!
//! A test is any program. It passes if it exits with 0 within its limit, leaves the machine unchanged, and the kernel
//! logs no forbidden message. Exactly one line is printed for each test:
//! `VERDICT pass NAME 1.2s` or `VERDICT fail NAME 1.2s REASON`.

mod kernel_log;
mod mounts;
mod node;
mod program;
mod shell;
mod suite;

use nix::sys::reboot::{RebootMode, reboot};

fn main() {
    if let Err(error) = mounts::remount_root().and_then(|()| mounts::mount_all()) {
        println!("init: {error}");
    }
    let line = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    let option =
        |name: &str| line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    match option("ferroband.mode") {
        Some("shell") => shell::run(),
        Some("peer") => suite::serve(),
        Some("node") => node::run(),
        _ => suite::run(option("ferroband.machines").unwrap_or("1")),
    }
    nix::unistd::sync();
    // Returns only on failure; then the kernel panic after init exits stops the machine as well.
    let _ = reboot(RebootMode::RB_POWER_OFF);
}
