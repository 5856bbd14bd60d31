//! Emulated machines with the kernel's InfiniBand stack, without hardware and without root.
//!
//! ```text
//!  Debian packages by name ──▶ userland, kernel, headers     apt, userland, kernel
//!  lab/softib  (C) ──make──▶ softib.ko                       softib, toolchain
//!  lab/vm/init (Rust), tests/vm ──▶ contents of the guest    guest
//!            all of it ──▶ one initramfs file                image, cpio
//!  initramfs ──QEMU (KVM, TCG)──▶ console ──▶ verdicts       qemu, accelerator, machine, verdict
//!                             └──▶ a node of the lab         node; see also lab/emulated
//! ```
//!
//! Results of slow steps are cached under `$FERROBAND_CACHE/vm`, keyed by their inputs, so that a second run boots at
//! once. `lab/vm/README.md` describes manual use.

mod accelerator;
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

/// Requirements of the host, besides apt and util-linux.
const HOST_REQUIREMENTS: &[HostRequirement] = &[
    HostRequirement { file: "qemu-system-x86_64", package: "qemu-system-x86" },
    HostRequirement { file: "gcc", package: "gcc" },
    HostRequirement { file: "/usr/include/stdio.h", package: "libc6-dev" },
    HostRequirement { file: "make", package: "make" },
    // The kernel's build programs are linked to it.
    HostRequirement { file: "/usr/lib/x86_64-linux-gnu/libelf.so.1", package: "libelf1" },
    HostRequirement { file: "depmod", package: "kmod" },
    HostRequirement { file: "xz", package: "xz-utils" },
];

/// Files that a machine boots from.
#[derive(Debug, Clone)]
pub struct BootArtifacts {
    /// Compressed kernel image.
    pub kernel: PathBuf,
    /// Userland, modules and tests in one file.
    pub initramfs: PathBuf,
    /// Kernel release as in `uname -r`.
    pub release: String,
    /// Guest tests in execution order.
    pub tests: Vec<String>,
    /// Guest tests that need two machines.
    pub pair_tests: Vec<String>,
}

/// Builds everything that a machine needs, for the newest packaged kernel of a series such as `6.1` or `6.12`.
///
/// # Errors
/// If a host program is missing and cannot be installed, a package is unavailable, or something does not compile.
pub fn build(kernel: &str) -> Result<BootArtifacts> {
    assemble(
        kernel,
        UserlandFlavour::Fabric,
        &GuestTestSelection { test: &|_, on_demand| !on_demand, peers: None },
    )
}

/// Unpacks one Debian package into the cache, without dependencies and without installing it.
///
/// # Errors
/// If the package is unavailable.
pub fn unpack_package(package: &str) -> Result<PathBuf> {
    let cache = cache::VmCache::open()?;
    cache.keyed("package", package, |folder| {
        let debs = folder.join("debs");
        std::fs::create_dir_all(&debs)?;
        let apt = apt::Apt::host(&cache)?;
        apt::unpack(&apt::download(&apt, &[package.to_owned()], &debs)?, folder)
    })
}

/// Boots a machine, runs the guest tests whose name contains `filter`, and returns one verdict each. On-demand tests
/// must be named in full; tests of upstream plugins need `peers`.
///
/// # Errors
/// If the machine cannot be built or started, or no test matches.
pub fn run_tests(kernel: &str, filter: Option<&str>, peers: Option<&Path>) -> Result<Vec<TestVerdict>> {
    let selects = |name: &str, on_demand: bool| match filter {
        Some(part) => name == part || !on_demand && name.contains(part),
        None => !on_demand,
    };
    let artifacts = assemble(kernel, UserlandFlavour::Fabric, &GuestTestSelection { test: &selects, peers })?;
    if artifacts.tests.is_empty() && artifacts.pair_tests.is_empty() {
        bail!("no guest test in tests/vm matches {:?}", filter.unwrap_or_default());
    }
    let mut verdicts = Vec::new();
    for (machines, tests) in [(1, &artifacts.tests), (2, &artifacts.pair_tests)] {
        if !tests.is_empty() {
            verdicts.extend(machine::run_tests(&artifacts, machines, tests)?.verdicts);
        }
    }
    Ok(verdicts)
}

/// Boots a machine for one benchmark and returns its lines that start with `BENCH`.
///
/// # Errors
/// If the machine cannot be built or started, or the benchmark fails.
pub fn run_benchmark(kernel: &str, test: &str, peers: &Path) -> Result<Vec<String>> {
    let selection = GuestTestSelection { test: &|name, _| name == test, peers: Some(peers) };
    let artifacts = assemble(kernel, UserlandFlavour::Fabric, &selection)?;
    let run = machine::run_tests(&artifacts, 1, &artifacts.tests)?;
    if let Some(failed) = run.verdicts.iter().find(|verdict| !verdict.passed) {
        bail!("{}: {}", failed.name, failed.reason);
    }
    Ok(run.figures)
}

/// Opens a shell on the serial console of a machine with InfiniBand; returns when it powers off.
///
/// # Errors
/// If the machine cannot be built or started.
pub fn open_shell(kernel: &str) -> Result<()> {
    machine::run_shell(&assemble(kernel, UserlandFlavour::Fabric, &GuestTestSelection::NONE)?)
}

/// Builds everything with the selected guest tests.
fn assemble(
    kernel: &str,
    flavour: UserlandFlavour,
    selection: &GuestTestSelection<'_>,
) -> Result<BootArtifacts> {
    let checkout = crate::cache::checkout();
    require(HOST_REQUIREMENTS)?;
    let cache = cache::VmCache::open()?;
    let userland = userland::ensure_userland(&cache, flavour)?;
    let kernel = kernel::ensure_kernel(&cache, kernel)?;
    let module = softib::build(&cache, &checkout, &kernel)?;
    let guest = guest::GuestContents::build(&cache, &checkout, &userland, selection)?;
    image::assemble(&cache, flavour, &userland, &kernel, &module, &guest)
}
