//! The compiler of a newer Debian release, for its kernels: unpacked and used through chroot.
//!
//! Its programs need their own C library, and kernel headers use absolute paths; a separate root file system provides
//! both.

use super::apt::{self, Apt};
use super::cache::VmCache;
use super::userland::merge_usr;
use crate::command::{command, output};
use anyhow::Result;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Programs used by make, besides the compiler, which the headers depend on.
const PROGRAMS: [&str; 6] = ["make", "dash", "coreutils", "sed", "grep", "mawk"];
/// Links that package configuration would create.
const LINKS: [(&str, &str); 2] = [("sh", "dash"), ("awk", "mawk")];
/// binutils programs, packaged with an architecture prefix.
const BINUTILS: [&str; 9] = ["as", "ld", "ar", "nm", "objcopy", "objdump", "strip", "readelf", "ranlib"];

/// Path of the toolchain in a kernel's cache folder.
pub fn toolchain_root(kernel: &Path) -> PathBuf {
    kernel.join("toolchain")
}

/// Unpacks the headers of a kernel with all dependencies.
pub fn unpack(cache: &VmCache, apt: &Apt, release: &str, kernel: &Path) -> Result<()> {
    let root = toolchain_root(kernel);
    fs::create_dir_all(&root)?;
    let headers = format!("linux-headers-{release}");
    let packages: Vec<&str> = std::iter::once(headers.as_str()).chain(PROGRAMS).collect();
    apt::unpack(&apt::download_with_dependencies(cache, apt, &packages)?, &root)?;
    merge_usr(&root)?;
    for (name, target) in LINKS {
        ensure_link(&root, name, target)?;
    }
    for name in BINUTILS {
        ensure_link(&root, name, &format!("x86_64-linux-gnu-{name}"))?;
    }
    for folder in ["dev", "proc", "tmp", "build"] {
        fs::create_dir_all(root.join(folder))?;
    }
    Ok(())
}

fn ensure_link(root: &Path, name: &str, target: &str) -> Result<()> {
    let link = root.join("usr/bin").join(name);
    if fs::symlink_metadata(&link).is_err() {
        symlink(target, &link)?;
    }
    Ok(())
}

/// Runs `make ARGS` in `folder` with that compiler.
pub fn make(toolchain: &Path, folder: &Path, args: &[&str]) -> Result<String> {
    let script = "mount --rbind /dev dev && mount --rbind /proc proc && mount --bind \"$0\" build && \
                  exec chroot . /usr/bin/make -C /build \"$@\"";
    let mut make = command("unshare", ["--mount"]);
    if !nix::unistd::geteuid().is_root() {
        make.arg("--map-root-user");
    }
    make.args(["--", "sh", "-c", script]).arg(folder).args(args);
    // The host's PATH is not valid in the chroot.
    make.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    output(make.current_dir(toolchain))
}
