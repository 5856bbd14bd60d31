//! `cargo xtask test`: test tiers and a summary line.
//!
//! ```text
//! unit         formatting, lints, dependency direction, generated files, tests without privileges     seconds
//! netns        tests with the real kernel, in separate network namespaces                             seconds
//! conformance  CNI cases as files, run against ferroband-cni                                           seconds
//! cluster      scenarios on a real Kubernetes                                                         minutes
//! fuzz         the fuzz targets of tests/fuzz, minutes for each; only if named                        minutes
//! soak         loops of the cluster tier, many rounds, after mutants and fuzz; only if named          hours
//! mutants      one change of the code at a time, which a test must notice; only if named              hours
//! vm           the kernel's InfiniBand stack in an emulated machine with a software adapter           minutes
//! vmlab        scenarios on a cluster of two such machines; only if named                             minutes
//! ```

mod cargo;
mod cluster;
mod conformance;
mod dependency_direction;
mod lanes;
mod mutants;
mod tally;
mod vm;

use anyhow::Result;
use clap::{Args, ValueEnum};
use lanes::{TestOptions, TestProgram};
use std::path::PathBuf;
use tally::Tally;

pub use conformance::{ConformanceArgs, run_player};

/// `cargo xtask test`
#[derive(Args, Debug)]
pub struct TestArgs {
    /// Tiers to run [default: unit, netns, conformance and cluster]
    #[arg(value_enum)]
    tiers: Vec<TestTier>,
    /// Run only tests whose name contains TEXT
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Kernel series of the emulated machines in the tiers `vm` and `vmlab`
    #[arg(long, value_name = "SERIES", default_value = "6.1")]
    kernel: String,
    /// Folder with upstream CNI plugins: the tier `vm` tests them on the software adapters, and in the tier `cluster`
    /// `whereabouts` writes the records that are migrated
    #[arg(long, value_name = "FOLDER")]
    peers: Option<PathBuf>,
    /// Keep the lab of the cluster tier running afterwards
    #[arg(long)]
    keep: bool,
}

/// Test tiers, by their requirements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TestTier {
    /// Formatting, lints, dependency direction, generated files, tests without privileges
    Unit,
    /// Tests in separate network namespaces; need root
    Netns,
    /// CNI cases as files, run against ferroband-cni; need root
    Conformance,
    /// Scenarios on a real Kubernetes cluster in a lab; need root
    Cluster,
    /// The kernel's InfiniBand stack in an emulated machine
    Vm,
    /// Scenarios on a cluster of two such machines; need root, run only if named
    Vmlab,
    /// The fuzz targets, minutes for each; runs only if named
    Fuzz,
    /// Loops of the cluster tier, many rounds, after the tiers `mutants` and `fuzz`; runs only if named
    Soak,
    /// One change of the code at a time, which a test must notice; --only TEXT selects crates; runs only if named
    Mutants,
}

/// Default tiers. `vm` is added once a full run passes in under ten minutes.
const DEFAULT_TIERS: [TestTier; 4] =
    [TestTier::Unit, TestTier::Netns, TestTier::Conformance, TestTier::Cluster];

/// Rounds of `soak`; the cluster tier runs one.
const SOAK_ROUNDS: usize = 50;

/// Duration of each target in the tier `fuzz`; the unit tier runs each for two seconds.
const FUZZ_SECONDS: u32 = 300;

/// Runs the tiers; the exit code is 0 if all tests passed.
pub fn run_tests(args: &TestArgs) -> Result<i32> {
    let tiers = if args.tiers.is_empty() { DEFAULT_TIERS.to_vec() } else { args.tiers.clone() };
    let mut tally = Tally::default();
    for tier in tiers.into_iter().flat_map(|tier| with_implied_tiers(tier, args.only.is_some())) {
        let only = args.only.as_deref();
        tally.run_tier(&format!("{tier:?}").to_lowercase(), |tally| match tier {
            TestTier::Unit => unit(tally, only),
            TestTier::Netns => {
                ferroband_lab::tools::require_root()?;
                ferroband_lab::tools::require(ferroband_lab::tools::LAB_REQUIREMENTS)?;
                ferroband_lab::tools::require(ferroband_lab::tools::FABRIC_REQUIREMENTS)?;
                run_plain(tally, cargo::build_netns()?, only)
            }
            TestTier::Conformance => {
                conformance::run(tally, only).and_then(|()| conformance::check_budget(tally))
            }
            TestTier::Cluster => cluster::run(tally, only, args.keep, 1, args.peers.as_deref()),
            TestTier::Soak => {
                cluster::run(tally, Some(only.unwrap_or("many_")), args.keep, SOAK_ROUNDS, None)
            }
            TestTier::Fuzz => fuzz(tally, only),
            TestTier::Mutants => mutants::run(tally, only),
            TestTier::Vm => vm::run(tally, only, &args.kernel, args.peers.as_deref()),
            TestTier::Vmlab => cluster::run_emulated(tally, only, args.keep, &args.kernel),
        });
    }
    Ok(tally.finish())
}

/// `soak` includes `mutants` and `fuzz`, unless a name selects one of its loops.
fn with_implied_tiers(tier: TestTier, has_filter: bool) -> Vec<TestTier> {
    match tier {
        TestTier::Soak if !has_filter => vec![TestTier::Mutants, TestTier::Fuzz, TestTier::Soak],
        tier => vec![tier],
    }
}

fn unit(tally: &mut Tally, only: Option<&str>) -> Result<()> {
    if only.is_none() {
        tally.check("formatting", cargo::check_formatting);
        tally.check("lints", cargo::check_lints);
        tally.check("dependency direction", dependency_direction::check);
        tally.check("generated files are current", crate::generate::check_current);
        crate::check::run(|name, check| tally.check(name, check))?;
    }
    run_plain(tally, cargo::build_unit()?, only)
}

/// Runs the fuzz targets for a long time.
fn fuzz(tally: &mut Tally, only: Option<&str>) -> Result<()> {
    let environment = vec![("FERROBAND_FUZZ_SECONDS", FUZZ_SECONDS.to_string().into())];
    let options = TestOptions { args: only.into_iter().collect(), environment };
    lanes::run(tally, cargo::build_fuzz()?, &[None], &options)
}

/// Runs tests that need no lab, two programs at a time.
fn run_plain(tally: &mut Tally, programs: Vec<TestProgram>, only: Option<&str>) -> Result<()> {
    let options = TestOptions { args: only.into_iter().collect(), ..TestOptions::default() };
    lanes::run(tally, programs, &[None, None], &options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soak_includes_mutants_and_fuzz_unless_a_loop_is_selected() {
        let all = [TestTier::Mutants, TestTier::Fuzz, TestTier::Soak];
        assert_eq!(with_implied_tiers(TestTier::Soak, false), all);
        assert_eq!(with_implied_tiers(TestTier::Soak, true), [TestTier::Soak]);
        assert_eq!(with_implied_tiers(TestTier::Unit, false), [TestTier::Unit]);
    }
}
