//! Checks that read the source code: names, dead items, module cycles, dependencies and licences, golden files, mounts.

pub mod cases;
mod dead_items;
mod duplicate_names;
pub mod golden;
mod host_paths;
mod module_cycles;
mod promises;
mod sources;
mod supply_chain;
mod unused_dependencies;

use anyhow::Result;
use sources::Source;

type SourceCheck = fn(&[Source]) -> Result<()>;

/// The checks of the `unit` tier, with what each one shows.
const CHECKS: [(&str, SourceCheck); 9] = [
    ("names that users and disks see are unchanged", golden::check),
    ("cases and their tests match the catalogues", cases::check),
    ("type names are unique", duplicate_names::check),
    ("no public item is unused", dead_items::check),
    ("no modules use each other in a circle", module_cycles::check),
    ("no dependency is unused", unused_dependencies::check),
    ("host paths of the node daemon are mounted", host_paths::check),
    ("promises of the security page name their tests", promises::check),
    ("licences, sources and banned crates are as in deny.toml", supply_chain::check),
];

/// Hands every check to `run_one`. The workspace is parsed once.
pub fn run(mut run_one: impl FnMut(&str, &dyn Fn() -> Result<()>)) -> Result<()> {
    let sources = sources::parse_all()?;
    for (name, check) in CHECKS {
        run_one(name, &|| check(&sources));
    }
    Ok(())
}
