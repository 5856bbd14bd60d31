//! The one file a machine boots from: archives laid end to end, the large and slow-changing ones from the cache.

use super::Artifacts;
use super::cache::{Cache, key};
use super::cpio::Archive;
use super::guest::Guest;
use super::kernel::Kernel;
use super::userland::{Flavour, Userland};
use crate::progress::step;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Folders that packages do not bring or that were pruned empty.
const FOLDERS: &[&str] = &[
    "dev",
    "proc",
    "sys",
    "run",
    "tmp",
    "root",
    "etc",
    "mnt",
    "opt/cni/bin",
    "var/lib",
    "var/cache/opensm",
    "var/log",
];

/// Files without which programs of the guest complain.
const FILES: &[(&str, &str)] = &[
    ("etc/passwd", "root:x:0:0:root:/root:/bin/bash\ntcpdump:x:100:100::/:/bin/false\n"),
    ("etc/group", "root:x:0:\ntcpdump:x:100:\n"),
    ("etc/hosts", "127.0.0.1 localhost\n"),
    ("etc/resolv.conf", ""),
    ("etc/hostname", "fabric\n"),
    ("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
];

/// Puts everything together.
pub fn assemble(
    cache: &Cache,
    flavour: Flavour,
    userland: &Userland,
    kernel: &Kernel,
    module: &Path,
    guest: &Guest,
) -> Result<Artifacts> {
    let base = base(cache, userland)?;
    let modules = modules(cache, kernel)?;
    let images = cache.dir("images")?;
    let name = match flavour {
        Flavour::Fabric => kernel.release.clone(),
        Flavour::Node => format!("{}-node", kernel.release),
    };
    let image = images.join(format!("{name}.cpio"));
    let raw = images.join(format!(".{name}.{}", std::process::id()));
    let top = images.join(format!(".top.{}", std::process::id()));
    own(&top, module, guest)?;
    let mut whole = File::create(&raw).with_context(|| format!("create {}", raw.display()))?;
    for part in [&base, &modules, &top] {
        io::copy(&mut File::open(part)?, &mut whole).with_context(|| format!("append {}", part.display()))?;
    }
    fs::remove_file(&top)?;
    // A machine that is running keeps the file it was started from.
    fs::rename(&raw, &image)?;
    Ok(Artifacts {
        kernel: kernel.image.clone(),
        initramfs: image,
        release: kernel.release.clone(),
        tests: named(guest, 1),
        pair_tests: named(guest, 2),
    })
}

fn named(guest: &Guest, machines: u8) -> Vec<String> {
    guest.tests.iter().filter(|test| test.machines == machines).map(|test| test.name.clone()).collect()
}

fn base(cache: &Cache, userland: &Userland) -> Result<PathBuf> {
    let dir = cache.keyed("base", &key((&userland.root, FOLDERS, FILES)), |dir| {
        step("archive of the userland", |_| {
            let mut archive = Archive::create(&dir.join("base.cpio"))?;
            archive.tree(&userland.root, "")?;
            for folder in FOLDERS {
                archive.directory(folder)?;
            }
            for (name, text) in FILES {
                archive.file(name, 0o644, text.as_bytes())?;
            }
            archive.symlink("var/run", "/run")?;
            archive.device("dev/console", 5, 1)?;
            archive.device("dev/null", 1, 3)?;
            archive.finish()
        })
    })?;
    Ok(dir.join("base.cpio"))
}

fn modules(cache: &Cache, kernel: &Kernel) -> Result<PathBuf> {
    let dir = cache.keyed("modules", &key(&kernel.modules), |dir| {
        let mut archive = Archive::create(&dir.join("modules.cpio"))?;
        archive.tree(&kernel.modules.join("lib"), "usr/lib")?;
        archive.finish()
    })?;
    Ok(dir.join("modules.cpio"))
}

/// What changes while one works: our module, init, the tests.
fn own(path: &Path, module: &Path, guest: &Guest) -> Result<()> {
    let mut archive = Archive::create(path)?;
    archive.file("lab/softib.ko", 0o644, &fs::read(module)?)?;
    for machines in [1, 2] {
        archive.file(&format!("lab/tests-{machines}.list"), 0o644, guest.manifest(machines).as_bytes())?;
    }
    for item in &guest.items {
        let data = fs::read(&item.from).with_context(|| format!("read {}", item.from.display()))?;
        let mode = fs::metadata(&item.from)?.permissions().mode() & 0o777 | 0o555;
        archive.file(&item.to, mode, &data)?;
    }
    archive.finish()
}
