//! The initramfs of a machine: concatenated archives; the large ones come from the cache.

use super::BootArtifacts;
use super::cache::{VmCache, hash_key};
use super::cpio::CpioArchive;
use super::guest::GuestContents;
use super::kernel::DebianKernel;
use super::userland::{Userland, UserlandFlavour};
use crate::progress::run_step;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Folders that are missing in packages or were pruned.
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

/// Files that programs in the guest require.
const FILES: &[(&str, &str)] = &[
    ("etc/passwd", "root:x:0:0:root:/root:/bin/bash\ntcpdump:x:100:100::/:/bin/false\n"),
    ("etc/group", "root:x:0:\ntcpdump:x:100:\n"),
    ("etc/hosts", "127.0.0.1 localhost\n"),
    ("etc/resolv.conf", ""),
    ("etc/hostname", "fabric\n"),
    ("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
];

/// Assembles the initramfs.
pub fn assemble(
    cache: &VmCache,
    flavour: UserlandFlavour,
    userland: &Userland,
    kernel: &DebianKernel,
    module: &Path,
    guest: &GuestContents,
) -> Result<BootArtifacts> {
    let base = base_archive(cache, userland)?;
    let modules = module_archive(cache, kernel)?;
    let images = cache.dir("images")?;
    let name = match flavour {
        UserlandFlavour::Fabric => kernel.release.clone(),
        UserlandFlavour::Node => format!("{}-node", kernel.release),
    };
    let image = images.join(format!("{name}.cpio"));
    let raw = images.join(format!(".{name}.{}", std::process::id()));
    let top = images.join(format!(".top.{}", std::process::id()));
    write_checkout_archive(&top, module, guest)?;
    let mut whole = File::create(&raw).with_context(|| format!("create {}", raw.display()))?;
    for part in [&base, &modules, &top] {
        io::copy(&mut File::open(part)?, &mut whole).with_context(|| format!("append {}", part.display()))?;
    }
    fs::remove_file(&top)?;
    // A running machine keeps the old file.
    fs::rename(&raw, &image)?;
    Ok(BootArtifacts {
        kernel: kernel.image.clone(),
        initramfs: image,
        release: kernel.release.clone(),
        tests: test_names(guest, 1),
        pair_tests: test_names(guest, 2),
    })
}

fn test_names(guest: &GuestContents, machines: u8) -> Vec<String> {
    guest.tests.iter().filter(|test| test.machines == machines).map(|test| test.name.clone()).collect()
}

fn base_archive(cache: &VmCache, userland: &Userland) -> Result<PathBuf> {
    let dir = cache.keyed("base", &hash_key((&userland.root, FOLDERS, FILES)), |dir| {
        run_step("archive of the userland", |_| {
            let mut archive = CpioArchive::create(&dir.join("base.cpio"))?;
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

fn module_archive(cache: &VmCache, kernel: &DebianKernel) -> Result<PathBuf> {
    let dir = cache.keyed("modules", &hash_key(&kernel.modules), |dir| {
        let mut archive = CpioArchive::create(&dir.join("modules.cpio"))?;
        archive.tree(&kernel.modules.join("lib"), "usr/lib")?;
        archive.finish()
    })?;
    Ok(dir.join("modules.cpio"))
}

/// Writes the archive of frequently changed files: module, init, tests.
fn write_checkout_archive(path: &Path, module: &Path, guest: &GuestContents) -> Result<()> {
    let mut archive = CpioArchive::create(path)?;
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
