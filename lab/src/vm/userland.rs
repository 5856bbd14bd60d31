//! The guest's userland: unpacked, merged and pruned Debian packages.

use super::apt::{Apt, download_with_dependencies, unpack};
use super::cache::{VmCache, hash_key};
use crate::progress::run_step;
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Packages for users and tests in the guest, without dependencies.
const USERLAND_PACKAGES: &[&str] = &[
    "bash",
    "coreutils",
    "diffutils",
    "ethtool",
    "findutils",
    "gawk",
    "grep",
    "ibverbs-providers",
    "ibverbs-utils",
    "infiniband-diags",
    "iproute2",
    "iputils-ping",
    "jq",
    "kmod",
    "less",
    "mount",
    "opensm",
    "pciutils",
    "perftest",
    "procps",
    "rdma-core",
    "rdmacm-utils",
    "sed",
    "strace",
    "tcpdump",
    "util-linux",
    "vim-tiny",
];

/// Additional packages of a lab node: container runtime and ssh.
const NODE_PACKAGES: &[&str] = &["dropbear-bin", "runc"];

/// Development packages for the guest's C programs.
const DEVELOPMENT_PACKAGES: &[&str] = &["libibverbs-dev", "libibumad-dev", "libibmad-dev"];

/// Paths that are not needed in a short-lived machine.
const PRUNED_PATHS: &[&str] = &[
    "usr/share/doc",
    "usr/share/man",
    "usr/share/info",
    "usr/share/locale",
    "usr/share/perl",
    "usr/share/perl5",
    "usr/share/lintian",
    "usr/share/bash-completion",
    "usr/share/zoneinfo",
    "usr/share/i18n",
    "usr/share/common-licenses",
    "usr/share/bug",
    "usr/lib/x86_64-linux-gnu/perl",
    "usr/lib/x86_64-linux-gnu/perl-base",
    "usr/lib/x86_64-linux-gnu/gconv",
    "usr/lib/udev",
    "usr/lib/systemd",
    "usr/lib/python3",
    "var/lib/dpkg",
    "usr/bin/perl",
    "usr/bin/perl5.36.0",
];

/// Links that package configuration would create.
const ALTERNATIVES: &[(&str, &str)] =
    &[("sh", "bash"), ("awk", "gawk"), ("vi", "vim.tiny"), ("pager", "less")];

/// The guest's userland and development files.
pub struct Userland {
    /// The guest's root file system.
    pub root: PathBuf,
    /// Headers and libraries for the guest's C programs.
    pub development: PathBuf,
}

/// Purpose of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserlandFlavour {
    /// Tests or an interactive shell.
    Fabric,
    /// A node of the lab.
    Node,
}

/// The guest's userland, built if missing.
pub fn ensure_userland(cache: &VmCache, flavour: UserlandFlavour) -> Result<Userland> {
    let mut packages = USERLAND_PACKAGES.to_vec();
    if flavour == UserlandFlavour::Node {
        packages.extend(NODE_PACKAGES);
    }
    let root = cache.keyed("userland", &hash_key((&packages[..], PRUNED_PATHS, ALTERNATIVES)), |dir| {
        run_step("userland of the guest", |_| {
            unpack(&download_with_dependencies(cache, &Apt::host(cache)?, &packages)?, dir)?;
            merge_usr(dir)?;
            prune(dir)?;
            link_alternatives(dir)
        })
    })?;
    let development = cache.keyed("development", &hash_key(DEVELOPMENT_PACKAGES), |dir| {
        run_step("headers for guest programs", |_| {
            unpack(&download_with_dependencies(cache, &Apt::host(cache)?, DEVELOPMENT_PACKAGES)?, dir)
        })
    })?;
    Ok(Userland { root, development })
}

/// Makes `/bin` and the like links into `/usr`, as on an installed system; packages ship both.
pub fn merge_usr(root: &Path) -> Result<()> {
    for name in ["bin", "sbin", "lib", "lib64"] {
        let old = root.join(name);
        if fs::symlink_metadata(&old).is_ok_and(|meta| meta.is_dir()) {
            move_into(&old, &root.join("usr").join(name))?;
        }
        if fs::symlink_metadata(&old).is_err() {
            symlink(format!("usr/{name}"), &old)?;
        }
    }
    Ok(())
}

fn move_into(from: &Path, into: &Path) -> Result<()> {
    fs::create_dir_all(into)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = into.join(entry.file_name());
        if entry.file_type()?.is_dir() && target.is_dir() {
            move_into(&entry.path(), &target)?;
        } else {
            fs::rename(entry.path(), &target).with_context(|| format!("move to {}", target.display()))?;
        }
    }
    fs::remove_dir(from).with_context(|| format!("remove {}", from.display()))
}

fn link_alternatives(root: &Path) -> Result<()> {
    for (name, program) in ALTERNATIVES {
        let link = root.join("usr/bin").join(name);
        if fs::symlink_metadata(&link).is_err() {
            symlink(program, &link)?;
        }
    }
    Ok(())
}

fn prune(root: &Path) -> Result<()> {
    for part in PRUNED_PATHS {
        let path = root.join(part);
        match fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_dir() => fs::remove_dir_all(&path)?,
            Ok(_) => fs::remove_file(&path)?,
            Err(_) => {}
        }
    }
    Ok(())
}
