//! `cargo xtask test`: the tiers, and one closing line.
//!
//! ```text
//! unit         formatting, lints, dependency direction, generated files, tests without privileges     seconds
//! netns        the kernel's own answers, in network namespaces of the test's                          seconds
//! cluster      scenarios on a real Kubernetes                                                         minutes
//! ```

mod cargo;
mod cluster;
mod direction;
mod tally;

use anyhow::Result;
use clap::{Args, ValueEnum};
use tally::Tally;

/// Which tiers.
#[derive(Args, Debug)]
pub struct Test {
    /// Tiers to run; all of them when none is given
    #[arg(value_enum)]
    tiers: Vec<Tier>,
    /// Only tests whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Leave the cluster tier's lab up for a look around
    #[arg(long)]
    keep: bool,
}

/// A kind of test, by what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Tier {
    /// Formatting, lints, dependency direction, generated files, tests that need nothing
    Unit,
    /// Tests in network namespaces of their own; need root
    Netns,
    /// Scenarios on a real Kubernetes in a lab of their own; need root
    Cluster,
}

const ALL: [Tier; 3] = [Tier::Unit, Tier::Netns, Tier::Cluster];

/// Run the tiers; the exit code says whether all passed.
pub fn test(args: &Test) -> Result<i32> {
    let tiers = if args.tiers.is_empty() { ALL.to_vec() } else { args.tiers.clone() };
    let mut tally = Tally::default();
    for tier in tiers {
        let only = args.only.as_deref();
        tally.tier(&format!("{tier:?}").to_lowercase(), |tally| match tier {
            Tier::Unit => unit(tally, only),
            Tier::Netns => {
                crate::tools::require_root()?;
                crate::tools::require(crate::tools::LAB)?;
                cargo::netns(tally, only)
            }
            Tier::Cluster => cluster::run(tally, only, args.keep),
        });
    }
    Ok(tally.close())
}

fn unit(tally: &mut Tally, only: Option<&str>) -> Result<()> {
    if only.is_none() {
        tally.check("formatting", cargo::formatting);
        tally.check("lints", cargo::lints);
        tally.check("dependency direction", direction::check);
        tally.check("generated files are current", crate::generate::check);
    }
    cargo::unit(tally, only)
}
