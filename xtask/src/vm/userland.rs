//! The guest's userland: Debian packages, unpacked, made into one tree, and pruned.

use super::apt::{Apt, closure, unpack};
use super::cache::{Cache, key};
use crate::progress::step;
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// What a person or a test uses in the guest; dependencies follow by themselves.
const USERLAND: &[&str] = &[
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

/// What a machine has besides that is a node of the lab: containers, and a way in.
const NODE: &[&str] = &["dropbear-bin", "runc"];

/// What guest programs in C are compiled against.
const DEVELOPMENT: &[&str] = &["libibverbs-dev", "libibumad-dev", "libibmad-dev"];

/// Parts of the packages that a machine living for minutes has no use for.
const PRUNED: &[&str] = &[
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

/// Links that packages make only when they are configured.
const ALTERNATIVES: &[(&str, &str)] =
    &[("sh", "bash"), ("awk", "gawk"), ("vi", "vim.tiny"), ("pager", "less")];

/// The guest's userland, unpacked and pruned, and what its C programs are compiled against.
pub struct Userland {
    /// Folder with the guest's root file system.
    pub root: PathBuf,
    /// Folder with headers and libraries for programs of the guest.
    pub development: PathBuf,
}

/// What a machine is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Tests, or a person's shell.
    Fabric,
    /// A node of the lab.
    Node,
}

/// The guest's userland.
pub fn get(cache: &Cache, flavour: Flavour) -> Result<Userland> {
    let mut packages = USERLAND.to_vec();
    if flavour == Flavour::Node {
        packages.extend(NODE);
    }
    let root = cache.keyed("userland", &key((&packages[..], PRUNED, ALTERNATIVES)), |dir| {
        step("userland of the guest", |_| {
            unpack(&closure(cache, &Apt::host(cache)?, &packages)?, dir)?;
            merge_usr(dir)?;
            prune(dir)?;
            link_alternatives(dir)
        })
    })?;
    let development = cache.keyed("development", &key(DEVELOPMENT), |dir| {
        step("headers for guest programs", |_| unpack(&closure(cache, &Apt::host(cache)?, DEVELOPMENT)?, dir))
    })?;
    Ok(Userland { root, development })
}

/// `/bin` and the like become links into `/usr`, as on an installed system; packages still ship both.
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
    for part in PRUNED {
        let path = root.join(part);
        match fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_dir() => fs::remove_dir_all(&path)?,
            Ok(_) => fs::remove_file(&path)?,
            Err(_) => {}
        }
    }
    Ok(())
}
