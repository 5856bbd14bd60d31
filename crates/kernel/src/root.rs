//! Locations of the host's file trees.

use std::path::{Path, PathBuf};

/// Base directory of all paths: `/` in production, a mount of the host's file system in a container, a temporary
/// directory in a test.
///
/// The trees of the hardware (`sys`, `dev`) may be in another directory, which is how simulated hardware replaces
/// them.
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
    /// A root with all trees below `base`, including `sys` and `dev`.
    pub fn at(base: impl Into<PathBuf>) -> Self {
        Self { base: base.into(), hardware: None }
    }

    /// Returns a root whose `sys` and `dev` trees are below `directory`.
    #[must_use]
    pub fn with_hardware(self, directory: impl Into<PathBuf>) -> Self {
        Self { hardware: Some(directory.into()), ..self }
    }

    pub fn base(&self) -> &Path {
        &self.base
    }

    /// The path of `relative` below the base. A leading slash is ignored, so the path is always below the base.
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        below(&self.base, relative.as_ref())
    }

    /// The path of `relative`, such as `class/net`, in sysfs.
    pub fn sys(&self, relative: impl AsRef<Path>) -> PathBuf {
        below(&below(self.hardware(), Path::new("sys")), relative.as_ref())
    }

    /// The path of the device file `relative`, such as `infiniband/uverbs0`.
    pub fn dev(&self, relative: impl AsRef<Path>) -> PathBuf {
        below(&below(self.hardware(), Path::new("dev")), relative.as_ref())
    }

    /// The path of `relative`, such as `sys/kernel/random/boot_id`, in procfs.
    pub fn proc_(&self, relative: impl AsRef<Path>) -> PathBuf {
        below(&self.path("proc"), relative.as_ref())
    }

    /// The path of `relative`, such as `ferroband/cni.sock`, below `run`, which is cleared at boot.
    pub fn run(&self, relative: impl AsRef<Path>) -> PathBuf {
        below(&self.path("run"), relative.as_ref())
    }

    /// The path of `relative` in the directory of Ferroband's persistent state, `var/lib/ferroband`.
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
    fn default_root_is_the_file_system_root() {
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
    fn absolute_paths_stay_below_the_root() {
        assert_eq!(Root::at("/host").path("/etc/cni"), Path::new("/host/etc/cni"));
        assert_eq!(Root::at("/host").sys("/class"), Path::new("/host/sys/class"));
    }

    #[test]
    fn with_hardware_moves_only_sys_and_dev() {
        let root = Root::at("/host").with_hardware("/host/var/lib/ferroband/sim");
        assert_eq!(root.sys("class/net"), Path::new("/host/var/lib/ferroband/sim/sys/class/net"));
        assert_eq!(root.dev("infiniband"), Path::new("/host/var/lib/ferroband/sim/dev/infiniband"));
        assert_eq!(root.proc_("self"), Path::new("/host/proc/self"));
        assert_eq!(root.run("ferroband"), Path::new("/host/run/ferroband"));
    }
}
