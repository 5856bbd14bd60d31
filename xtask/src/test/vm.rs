//! The guest tests of the emulated machine, each with its verdict.

use super::tally::Tally;
use anyhow::{Result, bail};
use std::path::Path;

/// Boot the machine of a kernel series and count what its tests say.
pub fn run(tally: &mut Tally, only: Option<&str>, kernel: &str, peers: Option<&Path>) -> Result<()> {
    let verdicts = crate::vm::run_tests(kernel, only, peers)?;
    if verdicts.is_empty() {
        bail!("the machine gave no verdict");
    }
    for verdict in verdicts {
        // The machine has shown each as it came.
        tally.record(&format!("{} on {kernel}", verdict.name), verdict.passed, &verdict.reason);
    }
    Ok(())
}
