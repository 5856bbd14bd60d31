//! The file systems that a Linux userland expects.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use nix::mount::{MsFlags, mount};
use nix::unistd::{chdir, chroot};

/// Type, mount point, options.
const MOUNTS: &[(&str, &str, Option<&str>)] = &[
    ("proc", "/proc", None),
    ("sysfs", "/sys", None),
    ("devtmpfs", "/dev", None),
    ("devpts", "/dev/pts", Some("gid=5,mode=620,ptmxmode=666")),
    ("tmpfs", "/dev/shm", None),
    ("tmpfs", "/run", Some("mode=755")),
    ("tmpfs", "/tmp", None),
    ("cgroup2", "/sys/fs/cgroup", None),
    ("debugfs", "/sys/kernel/debug", None),
];

/// Bind-mounts the initramfs over itself. Container runtimes call pivot_root, which the kernel refuses if the root is
/// the initramfs itself (fs/namespace.c: it has no parent mount).
pub fn remount_root() -> Result<(), String> {
    let failed = |what: &'static str| move |error: nix::Error| format!("{what}: {error}");
    fs::create_dir_all("/new").map_err(|error| format!("create /new: {error}"))?;
    mount(Some("/"), "/new", None::<&str>, MsFlags::MS_BIND, None::<&str>).map_err(failed("bind /"))?;
    chdir("/new").map_err(failed("enter /new"))?;
    mount(Some("."), "/", None::<&str>, MsFlags::MS_MOVE, None::<&str>).map_err(failed("move to /"))?;
    chroot(".").map_err(failed("change root"))?;
    chdir("/").map_err(failed("enter /"))?;
    // Container volumes with mount propagation need a shared root.
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_SHARED, None::<&str>)
        .map_err(failed("share /"))
}

/// Mounts all of them; stops at the first failure, as later steps depend on them.
pub fn mount_all() -> Result<(), String> {
    for &(kind, place, options) in MOUNTS {
        fs::create_dir_all(place).map_err(|error| format!("create {place}: {error}"))?;
        mount(Some(kind), place, Some(kind), MsFlags::empty(), options)
            .map_err(|error| format!("mount {kind} on {place}: {error}"))?;
    }
    for (link, target) in
        [("/dev/fd", "/proc/self/fd"), ("/dev/stdin", "/proc/self/fd/0"), ("/dev/stdout", "/proc/self/fd/1")]
    {
        if !Path::new(link).exists() {
            symlink(target, link).map_err(|error| format!("link {link}: {error}"))?;
        }
    }
    nix::unistd::sethostname("fabric").map_err(|error| format!("host name: {error}"))
}
