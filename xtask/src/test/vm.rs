//! Guest tests of the emulated machine.

use super::tally::Tally;
use anyhow::{Result, bail};
use std::path::Path;

/// Boots a machine with this kernel series and counts the verdicts of its tests.
pub fn run(tally: &mut Tally, only: Option<&str>, kernel: &str, peers: Option<&Path>) -> Result<()> {
    let verdicts = ferroband_lab::vm::run_tests(kernel, only, peers)?;
    if verdicts.is_empty() {
        bail!("the machine returned no verdict");
    }
    for verdict in verdicts {
        // Each verdict has been printed already.
        tally.record(&format!("{} on {kernel}", verdict.name), verdict.passed, &verdict.reason);
    }
    Ok(())
}
