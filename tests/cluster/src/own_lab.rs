//! A separate lab for the tests of one file, if they need other hardware or nodes than the common lab has.

use crate::{lab_command, run};
use std::sync::{Mutex, OnceLock, PoisonError};

static NAME: OnceLock<String> = OnceLock::new();
static UP: Mutex<bool> = Mutex::new(false);

/// Switches this process to its own lab with Ferroband, started with `options` on the first call. The lab is taken down
/// when the process ends. If `FERROBAND_OWN_LAB` names a running lab, that one is used and kept.
#[track_caller]
pub fn start_own_lab(options: &[&str]) {
    start_bare_lab(&[&["--install"], options].concat());
}

/// The same without Ferroband; `run_lab(&["up", "--install"])` installs it later.
#[track_caller]
pub fn start_bare_lab(options: &[&str]) {
    let mut up = UP.lock().unwrap_or_else(PoisonError::into_inner);
    if *up {
        return;
    }
    let process = std::process::id().to_string();
    let existing = std::env::var("FERROBAND_OWN_LAB").ok();
    NAME.get_or_init(|| existing.clone().unwrap_or_else(|| format!("own-{process}")));
    if existing.is_none() {
        let command = lab_command(&[&["up", "--owner", &process], options].concat());
        run(command, "").stdout_or_panic();
    }
    *up = true;
}

/// The name of this process's own lab, if any.
pub(crate) fn name() -> Option<String> {
    NAME.get().cloned()
}
