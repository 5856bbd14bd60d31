//! A lab for the tests of one file, where the common one has other hardware or other nodes than they need.

use crate::{lab_command, run};
use std::sync::{Mutex, OnceLock, PoisonError};

static NAME: OnceLock<String> = OnceLock::new();
static UP: Mutex<bool> = Mutex::new(false);

/// From here on everything in this process is about a lab of its own, brought up with `options` the first time. It goes
/// when the process ends, however it ends. If `FERROBAND_OWN_LAB` names one that is up, that one serves and stays.
#[track_caller]
pub fn start_own_lab(options: &[&str]) {
    start_bare_lab(&[&["--install"], options].concat());
}

/// The same without Ferroband, which `lab(&["up", "--install"])` then puts on it.
#[track_caller]
pub fn start_bare_lab(options: &[&str]) {
    let mut up = UP.lock().unwrap_or_else(PoisonError::into_inner);
    if *up {
        return;
    }
    let process = std::process::id().to_string();
    let given = std::env::var("FERROBAND_OWN_LAB").ok();
    NAME.get_or_init(|| given.clone().unwrap_or_else(|| format!("own-{process}")));
    if given.is_none() {
        let command = lab_command(&[&["up", "--owner", &process], options].concat());
        run(command, "").stdout_or_panic();
    }
    *up = true;
}

/// The lab of this process's own, if it has one.
pub(crate) fn name() -> Option<String> {
    NAME.get().cloned()
}
