//! The guest tests of the emulated machine, each with its verdict.

use super::tally::Tally;
use anyhow::{Result, bail};

/// Boot the machine of a kernel series and count what its tests say.
pub fn run(tally: &mut Tally, only: Option<&str>, kernel: &str) -> Result<()> {
    let verdicts = crate::vm::test(kernel, only)?;
    if verdicts.is_empty() {
        bail!("the machine gave no verdict");
    }
    for verdict in verdicts {
        let name = format!("{} on {kernel} ({:.1} s there)", verdict.name, verdict.seconds);
        tally.check(&name, || if verdict.passed { Ok(()) } else { bail!("{}", verdict.reason) });
    }
    Ok(())
}
