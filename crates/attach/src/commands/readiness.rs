//! The default network's readiness indicator file (`readinessindicatorfile` of Multus).
//!
//! Before the file exists, an ADD would call plugins whose agent is not running yet.

use crate::protocol::{CniContext, Error, Invocation};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Interval between checks whether the file exists.
const PAUSE: Duration = Duration::from_millis(100);

/// Wait at most `timeout` for the readiness indicator file, if the configuration names one.
pub(crate) fn wait(context: &CniContext<'_>, call: &Invocation, timeout: Duration) -> Result<(), Error> {
    let Some(named) = call.config.readiness_file()? else { return Ok(()) };
    let path: PathBuf = context.root.path(named.trim_start_matches('/'));
    let end = Instant::now() + timeout;
    while !path.exists() {
        if (context.should_stop)() {
            return Err(Error::Interrupted);
        }
        if Instant::now() >= end {
            return Err(Error::DefaultNetworkNotReady { path });
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}
