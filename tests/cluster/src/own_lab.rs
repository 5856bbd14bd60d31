//! A separate lab for the tests of one file, if they need other hardware or nodes than the common lab has.

use crate::current_lab;
use clap::Parser;
use ferroband_lab::cluster::{LabUpArgs, up};
use std::ffi::OsString;
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

static NAME: OnceLock<String> = OnceLock::new();
static UP: Mutex<bool> = Mutex::new(false);

/// Options of `cargo xtask lab up`.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct LabOptions {
    #[command(flatten)]
    up: LabUpArgs,
}

/// Switches this process to its own lab with Ferroband, started with `options` on the first call. The lab is taken down
/// when the process ends. If `FERROBAND_OWN_LAB` names a running lab, that one is used and kept.
#[track_caller]
pub fn start_own_lab(options: &[&str]) {
    start_bare_lab(&[&["--install"], options].concat());
}

/// The same without Ferroband; `up_lab(&["--install"])` installs it later.
#[track_caller]
pub fn start_bare_lab(options: &[&str]) {
    let mut started = UP.lock().unwrap_or_else(PoisonError::into_inner);
    if *started {
        return;
    }
    let process = std::process::id().to_string();
    let existing = std::env::var("FERROBAND_OWN_LAB").ok();
    NAME.get_or_init(|| existing.clone().unwrap_or_else(|| format!("own-{process}")));
    if existing.is_none() {
        up_lab(&[&["--owner", &process], options].concat());
    }
    *started = true;
}

/// `cargo xtask lab up OPTIONS`: starts the lab under test, or what is missing in it.
#[track_caller]
pub fn up_lab(options: &[&str]) {
    // The lab's machines run its internal subcommands, which a test does not have.
    lab_program();
    let options = LabOptions::try_parse_from(options).unwrap_or_else(|error| panic!("{error}"));
    up(&current_lab(), &options.up).unwrap_or_else(|error| panic!("{error:#}"));
}

/// `cargo xtask lab ARGS` for the lab under test, not yet started: for tests of that command.
pub fn lab_cli(args: &[&str]) -> Command {
    let mut command = Command::new(lab_program());
    command.args(["lab", "--name", current_lab().name()]).args(args);
    command
}

/// The program with the lab's commands.
#[track_caller]
pub fn lab_program() -> OsString {
    let program = std::env::var_os("FERROBAND_LAB_PROGRAM");
    program.expect("FERROBAND_LAB_PROGRAM is not set: run this with `cargo xtask test cluster`")
}

/// The name of this process's own lab, if any.
pub(crate) fn name() -> Option<String> {
    NAME.get().cloned()
}
