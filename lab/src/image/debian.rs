//! A root file system from Debian packages, unpacked without installing them.

use super::archive::ImageRoot;
use crate::command::{command, output, run};
use crate::progress::ProgressStep;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;

/// Prefixes of dependencies that are needed only for installation or for features that the tests do not use.
const EXCLUDED_PREFIXES: &[&str] = &[
    "perl",
    "debconf",
    "dpkg",
    "python",
    "udev",
    "systemd",
    "adduser",
    "passwd",
    "init",
    "tar",
    "install-info",
    "libpython",
    "lsb",
    "sysvinit",
    "login",
    "util-linux",
    "mount",
    "libpam",
    "libaudit",
    "gcc-",
    "libdb5",
];

/// Unpacks the packages and their dependencies.
pub fn unpack(root: &ImageRoot, packages: &[&str], step: &mut ProgressStep) -> Result<()> {
    let depends = |packages: &[&str]| {
        let mut ask = command("apt-cache", ["depends", "--recurse", "--no-recommends", "--no-suggests"]);
        ask.args(["--no-conflicts", "--no-breaks", "--no-replaces", "--no-enhances"]).args(packages);
        output(&mut ask)
    };
    let listed = match depends(packages) {
        Ok(listed) => listed,
        Err(_) => {
            step.update("apt-get update");
            run(&mut command("apt-get", ["-qq", "update"]))?;
            depends(packages)?
        }
    };
    let selected: BTreeSet<&str> = listed
        .lines()
        .filter(|l| !l.starts_with([' ', '|', '<']))
        .map(str::trim)
        .filter(|name| packages.contains(name) || !EXCLUDED_PREFIXES.iter().any(|w| name.starts_with(w)))
        .collect();
    let folder = root.scratch_path("packages");
    fs::create_dir_all(&folder)?;
    step.update(format!("{} packages", selected.len()));
    // By default apt as root switches to a user that cannot write here. Packages are verified either way.
    run(command("apt-get", ["-qq", "-o", "APT::Sandbox::User=root", "download"])
        .args(&selected)
        .current_dir(&folder))
    .context("cannot download Debian packages")?;
    for entry in fs::read_dir(&folder)? {
        let package = entry?.path();
        step.update(package.file_name().unwrap_or_default().to_string_lossy());
        run(command("dpkg-deb", ["-x"]).arg(&package).arg(root.path("")))?;
    }
    for unneeded in
        ["usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/zoneinfo"]
    {
        let _ = fs::remove_dir_all(root.path(unneeded));
    }
    merge_usr(root)?;
    for folder in ["proc", "sys", "dev", "run", "tmp", "root", "etc"] {
        fs::create_dir_all(root.path(folder))?;
    }
    fs::write(root.path("etc/passwd"), "root:x:0:0:root:/root:/bin/bash\n")?;
    fs::write(root.path("etc/group"), "root:x:0:\n")?;
    run(command("ldconfig", ["-r"]).arg(root.path("")))?;
    // It contains times and inodes, so that two builds would differ.
    let _ = fs::remove_dir_all(root.path("var/cache/ldconfig"));
    Ok(())
}

/// Merges /bin and the like into /usr, as on an installed Debian; packages ship both.
fn merge_usr(root: &ImageRoot) -> Result<()> {
    for name in ["bin", "sbin", "lib", "lib64"] {
        let (old, new) = (root.path(name), root.path("usr").join(name));
        if old.is_dir() && !old.is_symlink() {
            fs::create_dir_all(&new)?;
            run(command("cp", ["-a", "-n"]).arg(old.join(".")).arg(&new))?;
            fs::remove_dir_all(&old)?;
        }
        if new.exists() && !old.exists() {
            std::os::unix::fs::symlink(format!("usr/{name}"), &old)?;
        }
    }
    if !root.path("usr/bin/sh").exists() {
        std::os::unix::fs::symlink("bash", root.path("usr/bin/sh"))?;
    }
    Ok(())
}
