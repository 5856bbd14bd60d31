//! Where the machine's file trees are.

use std::path::{Path, PathBuf};

/// The directory that every path of ours starts at: `/` in production, a mount of the host's file system in a
/// container, a temporary directory in a test.
///
/// The hardware's trees (`sys`, `dev`) may be elsewhere, which is all that simulated hardware has to change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Root {
    base: PathBuf,
    hardware: Option<PathBuf>,
}

impl Default for Root {
    fn default() -> Self {
        Self::at("/")
    }
}

impl Root {
    /// All trees under `base`.
    pub fn at(base: impl Into<PathBuf>) -> Self {
        Self { base: base.into(), hardware: None }
    }

    /// The same, but with `sys` and `dev` under `directory`.
    #[must_use]
    pub fn with_hardware(self, directory: impl Into<PathBuf>) -> Self {
        Self { hardware: Some(directory.into()), ..self }
    }

    /// The directory itself.
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// `relative` under the root; a leading slash does not lead out of it.
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        below(&self.base, relative.as_ref())
    }

    /// A path of sysfs: `class/net`.
    pub fn sys(&self, relative: impl AsRef<Path>) -> PathBuf {
        below(&below(self.hardware(), Path::new("sys")), relative.as_ref())
    }

    /// A device file: `infiniband/uverbs0`.
    pub fn dev(&self, relative: impl AsRef<Path>) -> PathBuf {
        below(&below(self.hardware(), Path::new("dev")), relative.as_ref())
    }

    /// A path of procfs: `sys/kernel/random/boot_id`.
    pub fn proc_(&self, relative: impl AsRef<Path>) -> PathBuf {
        below(&self.path("proc"), relative.as_ref())
    }

    /// A path that a reboot clears: `ferroband/cni.sock`.
    pub fn run(&self, relative: impl AsRef<Path>) -> PathBuf {
        below(&self.path("run"), relative.as_ref())
    }

    /// A path of our own state, which a reboot keeps: `journal` is `var/lib/ferroband/journal`.
    pub fn state(&self, relative: impl AsRef<Path>) -> PathBuf {
        below(&self.path("var/lib/ferroband"), relative.as_ref())
    }

    fn hardware(&self) -> &Path {
        self.hardware.as_deref().unwrap_or(&self.base)
    }
}

fn below(base: &Path, relative: &Path) -> PathBuf {
    base.join(relative.strip_prefix("/").unwrap_or(relative))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_real_root() {
        let root = Root::default();
        assert_eq!(root.path("etc/cni"), Path::new("/etc/cni"));
        assert_eq!(root.path("/etc/cni"), Path::new("/etc/cni"));
        assert_eq!(root.sys("class/net"), Path::new("/sys/class/net"));
        assert_eq!(root.dev("infiniband"), Path::new("/dev/infiniband"));
        assert_eq!(root.proc_("sys/net"), Path::new("/proc/sys/net"));
        assert_eq!(root.run("ferroband"), Path::new("/run/ferroband"));
        assert_eq!(root.state("journal"), Path::new("/var/lib/ferroband/journal"));
    }

    #[test]
    fn absolute_paths_stay_inside() {
        assert_eq!(Root::at("/host").path("/etc/cni"), Path::new("/host/etc/cni"));
        assert_eq!(Root::at("/host").sys("/class"), Path::new("/host/sys/class"));
    }

    #[test]
    fn hardware_elsewhere_moves_sys_and_dev_only() {
        let root = Root::at("/host").with_hardware("/host/var/lib/ferroband/sim");
        assert_eq!(root.sys("class/net"), Path::new("/host/var/lib/ferroband/sim/sys/class/net"));
        assert_eq!(root.dev("infiniband"), Path::new("/host/var/lib/ferroband/sim/dev/infiniband"));
        assert_eq!(root.proc_("self"), Path::new("/host/proc/self"));
        assert_eq!(root.run("ferroband"), Path::new("/host/run/ferroband"));
    }
}
