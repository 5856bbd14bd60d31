//! The file by which the default network says that it is ready (`readinessindicatorfile` of Multus).
//!
//! Before that an ADD would call plugins whose agent is not there yet.

use crate::{CniContext, Error, Invocation};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often the file is looked for.
const PAUSE: Duration = Duration::from_millis(100);

/// Wait for the file that the configuration names, if it names one, for at most `patience`.
pub(crate) fn wait(machine: &CniContext<'_>, call: &Invocation, patience: Duration) -> Result<(), Error> {
    let named = call.config.fields().text("readinessindicatorfile")?.filter(|path| !path.is_empty());
    let Some(named) = named else { return Ok(()) };
    let path: PathBuf = machine.root.path(named.trim_start_matches('/'));
    let end = Instant::now() + patience;
    while !path.exists() {
        if (machine.should_stop)() {
            return Err(Error::Interrupted);
        }
        if Instant::now() >= end {
            return Err(Error::DefaultNetworkNotReady { path });
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}
