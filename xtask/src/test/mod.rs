//! `cargo xtask test`: the tiers, and one closing line.
//!
//! ```text
//! unit         formatting, lints, dependency direction, generated files, tests without privileges     seconds
//! netns        the kernel's own answers, in network namespaces of the test's                          seconds
//! conformance  CNI cases as files, played against ferroband-cni                                        seconds
//! cluster      scenarios on a real Kubernetes                                                         minutes
//! soak         the cluster's loops, many times; only when named                                       an hour
//! vm           the kernel's own InfiniBand in an emulated machine, with a soft adapter                minutes
//! vmlab        scenarios on a cluster of two such machines; only when named                           minutes
//! ```

mod cargo;
mod cluster;
mod conformance;
mod dependency_direction;
mod tally;
mod vm;

use anyhow::Result;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use tally::Tally;

pub use conformance::{ConformanceArgs, run_player};

/// Which tiers.
#[derive(Args, Debug)]
pub struct TestArgs {
    /// Tiers to run; unit, netns, conformance and cluster when none is given
    #[arg(value_enum)]
    tiers: Vec<TestTier>,
    /// Only tests whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// The emulated machine's kernel, for the tiers `vm` and `vmlab`
    #[arg(long, value_name = "SERIES", default_value = "6.1")]
    kernel: String,
    /// CNI plugins of others: in the tier `vm` they are shown to work on the soft adapters too, and in the tier `cluster`
    /// `whereabouts` leaves the records that are moved over
    #[arg(long, value_name = "FOLDER")]
    peers: Option<PathBuf>,
    /// Leave the cluster tier's lab up for a look around
    #[arg(long)]
    keep: bool,
}

/// A kind of test, by what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TestTier {
    /// Formatting, lints, dependency direction, generated files, tests that need nothing
    Unit,
    /// Tests in network namespaces of their own; need root
    Netns,
    /// CNI cases as files, played against our binary; need root
    Conformance,
    /// Scenarios on a real Kubernetes in a lab of their own; need root
    Cluster,
    /// The kernel's own InfiniBand stack in an emulated machine
    Vm,
    /// Scenarios on a cluster of two such machines; need root, run only when named
    Vmlab,
    /// The cluster tier's loops many times over; runs only when named
    Soak,
}

/// What runs when no tier is named. `vm` joins when one run of the whole of it was green in under ten minutes.
const DEFAULT_TIERS: [TestTier; 4] =
    [TestTier::Unit, TestTier::Netns, TestTier::Conformance, TestTier::Cluster];

/// How often `soak` does what the cluster tier does once.
const SOAK_ROUNDS: usize = 50;

/// Run the tiers; the exit code says whether all passed.
pub fn run_tests(args: &TestArgs) -> Result<i32> {
    let tiers = if args.tiers.is_empty() { DEFAULT_TIERS.to_vec() } else { args.tiers.clone() };
    let mut tally = Tally::default();
    for tier in tiers {
        let only = args.only.as_deref();
        tally.run_tier(&format!("{tier:?}").to_lowercase(), |tally| match tier {
            TestTier::Unit => unit(tally, only),
            TestTier::Netns => {
                crate::tools::require_root()?;
                crate::tools::require(crate::tools::LAB_REQUIREMENTS)?;
                crate::tools::require(crate::tools::FABRIC_REQUIREMENTS)?;
                cargo::netns(tally, only)
            }
            TestTier::Conformance => {
                conformance::run(tally, only).and_then(|()| conformance::check_budget(tally))
            }
            TestTier::Cluster => cluster::run(tally, only, args.keep, 1, args.peers.as_deref()),
            TestTier::Soak => {
                cluster::run(tally, Some(only.unwrap_or("many_")), args.keep, SOAK_ROUNDS, None)
            }
            TestTier::Vm => vm::run(tally, only, &args.kernel, args.peers.as_deref()),
            TestTier::Vmlab => cluster::run_emulated(tally, only, args.keep, &args.kernel),
        });
    }
    Ok(tally.finish())
}

fn unit(tally: &mut Tally, only: Option<&str>) -> Result<()> {
    if only.is_none() {
        tally.check("formatting", cargo::check_formatting);
        tally.check("lints", cargo::check_lints);
        tally.check("dependency direction", dependency_direction::check);
        tally.check("generated files are current", crate::generate::check_current);
        crate::check::run(|name, check| tally.check(name, check))?;
    }
    cargo::unit(tally, only)
}
