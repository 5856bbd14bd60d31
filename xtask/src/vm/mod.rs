//! An emulated machine with InfiniBand: the kernel's real stack, no hardware, no root.
//!
//! ```text
//!  Debian packages by name ──▶ userland, kernel, headers     apt, userland, kernel
//!  lab/softib  (C) ──make──▶ softib.ko                       softib, toolchain
//!  lab/vm/init (Rust), tests/vm ──▶ what runs in the guest   guest
//!            all of it ──▶ one initramfs file                image, cpio
//!  initramfs ──QEMU (TCG)──▶ console ──▶ verdicts            qemu, machine, verdict
//!                        └──▶ a node of the lab              node; the rest of it is in lab/emulated
//! ```
//!
//! Whatever is slow is kept under `$FERROBAND_CACHE/vm`, keyed by what it was made from, so that a second run goes
//! straight to the machine. `lab/vm/README.md` says how to use it by hand.

mod apt;
mod cache;
mod cpio;
mod guest;
mod image;
mod kernel;
mod machine;
pub mod node;
mod qemu;
mod softib;
mod toolchain;
mod userland;
mod verdict;

use crate::tools::{HostRequirement, require};
use anyhow::{Result, bail};
use guest::GuestTestSelection;
use std::path::{Path, PathBuf};
use userland::UserlandFlavour;

pub use verdict::TestVerdict;

/// What the host must have; a package manager and util-linux every Debian has.
const HOST_REQUIREMENTS: &[HostRequirement] = &[
    HostRequirement { file: "qemu-system-x86_64", package: "qemu-system-x86" },
    HostRequirement { file: "gcc", package: "gcc" },
    HostRequirement { file: "/usr/include/stdio.h", package: "libc6-dev" },
    HostRequirement { file: "make", package: "make" },
    // The kernel's own build programs are linked to it.
    HostRequirement { file: "/usr/lib/x86_64-linux-gnu/libelf.so.1", package: "libelf1" },
    HostRequirement { file: "depmod", package: "kmod" },
    HostRequirement { file: "xz", package: "xz-utils" },
];

/// What a machine is started from.
#[derive(Debug, Clone)]
pub struct BootArtifacts {
    /// The compressed kernel.
    pub kernel: PathBuf,
    /// The whole userland, the modules and the tests, as one file.
    pub initramfs: PathBuf,
    /// The kernel's full release, as `uname -r` gives it.
    pub release: String,
    /// The guest tests inside, in the order they will run.
    pub tests: Vec<String>,
    /// Those that run in a machine that has a second one beside it.
    pub pair_tests: Vec<String>,
}

/// Makes everything a machine needs, for the newest packaged kernel of a series such as `6.1` or `6.12`.
///
/// # Errors
/// When a host program is missing and cannot be installed, a package cannot be had, or something does not compile.
pub fn build(kernel: &str) -> Result<BootArtifacts> {
    assemble(
        kernel,
        UserlandFlavour::Fabric,
        &GuestTestSelection { test: &|_, on_demand| !on_demand, peers: None },
    )
}

/// The files of one Debian package, without its dependencies and without installing it.
///
/// # Errors
/// When it cannot be had.
pub fn unpack_package(package: &str) -> Result<PathBuf> {
    let cache = cache::VmCache::open()?;
    cache.keyed("package", package, |folder| {
        let debs = folder.join("debs");
        std::fs::create_dir_all(&debs)?;
        let apt = apt::Apt::host(&cache)?;
        apt::unpack(&apt::download(&apt, &[package.to_owned()], &debs)?, folder)
    })
}

/// Boots a machine, runs the guest tests whose name contains `filter`, and returns one verdict for each. Tests that run
/// on demand only must be named in full; those about plugins of others need a folder of them.
///
/// # Errors
/// When the machine cannot be built or started, or ends before every test has its verdict.
pub fn run_tests(kernel: &str, filter: Option<&str>, peers: Option<&Path>) -> Result<Vec<TestVerdict>> {
    let wanted = |name: &str, on_demand: bool| match filter {
        Some(part) => name == part || !on_demand && name.contains(part),
        None => !on_demand,
    };
    let artifacts = assemble(kernel, UserlandFlavour::Fabric, &GuestTestSelection { test: &wanted, peers })?;
    if artifacts.tests.is_empty() && artifacts.pair_tests.is_empty() {
        bail!("no guest test in tests/vm has {:?} in its name", filter.unwrap_or_default());
    }
    let mut verdicts = Vec::new();
    for (machines, tests) in [(1, &artifacts.tests), (2, &artifacts.pair_tests)] {
        if !tests.is_empty() {
            verdicts.extend(machine::run_tests(&artifacts, machines, tests)?.verdicts);
        }
    }
    Ok(verdicts)
}

/// Boots a machine for one guest test that measures; what it printed in lines that begin with `BENCH`.
///
/// # Errors
/// When the machine cannot be built or started, or the test fails.
pub fn run_benchmark(kernel: &str, test: &str, peers: &Path) -> Result<Vec<String>> {
    let wanted = GuestTestSelection { test: &|name, _| name == test, peers: Some(peers) };
    let artifacts = assemble(kernel, UserlandFlavour::Fabric, &wanted)?;
    let run = machine::run_tests(&artifacts, 1, &artifacts.tests)?;
    if let Some(failed) = run.verdicts.iter().find(|verdict| !verdict.passed) {
        bail!("{}: {}", failed.name, failed.reason);
    }
    Ok(run.figures)
}

/// A shell on the serial console of a machine with InfiniBand; returns when that machine is off.
///
/// # Errors
/// When the machine cannot be built or started.
pub fn open_shell(kernel: &str) -> Result<()> {
    machine::run_shell(&assemble(kernel, UserlandFlavour::Fabric, &GuestTestSelection::NONE)?)
}

/// Makes everything, with the guest tests whose names are wanted.
fn assemble(
    kernel: &str,
    flavour: UserlandFlavour,
    wanted: &GuestTestSelection<'_>,
) -> Result<BootArtifacts> {
    let checkout = crate::cache::checkout();
    require(HOST_REQUIREMENTS)?;
    let cache = cache::VmCache::open()?;
    let userland = userland::ensure_userland(&cache, flavour)?;
    let kernel = kernel::ensure_kernel(&cache, kernel)?;
    let module = softib::build(&cache, &checkout, &kernel)?;
    let guest = guest::GuestContents::build(&cache, &checkout, &userland, wanted)?;
    image::assemble(&cache, flavour, &userland, &kernel, &module, &guest)
}
