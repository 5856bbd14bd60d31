//! Checks that read the source code.

pub mod golden;
mod sources;

use anyhow::Result;
use sources::Source;

type SourceCheck = fn(&[Source]) -> Result<()>;

/// The checks of the `unit` tier, with what each one shows.
const CHECKS: [(&str, SourceCheck); 1] = [("names that users and disks see are unchanged", golden::check)];

/// Hands every check to `run_one`. The workspace is parsed once.
pub fn run(mut run_one: impl FnMut(&str, &dyn Fn() -> Result<()>)) -> Result<()> {
    let sources = sources::parse_all()?;
    for (name, check) in CHECKS {
        run_one(name, &|| check(&sources));
    }
    Ok(())
}
