//! Reboots: at most one for each thing that is wanted, and none that does not help.

use crate::{Error, install::write_atomically};
use ferroband_kernel::{Root, boot_id};
use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io::ErrorKind,
    path::PathBuf,
};

/// How it stands with the reboot for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RebootStatus {
    /// It was not asked for yet.
    Due,
    /// It was asked for in this boot.
    Requested,
    /// It happened, and did not help.
    Ineffective,
}

/// What was rebooted for.
#[derive(Clone, Debug)]
pub struct RebootLog {
    path: PathBuf,
    boot: String,
}

impl RebootLog {
    /// Those of the machine under `root`.
    pub fn open(root: &Root) -> Result<Self, Error> {
        // A root without procfs is a test's, or a chroot on this machine.
        let boot = boot_id(root).or_else(|_| boot_id(&Root::default()))?;
        Ok(Self { path: root.state("configure/rebooted"), boot })
    }

    /// How it stands with the reboot for `wanted`.
    pub fn status(&self, wanted: &impl Hash) -> Result<RebootStatus, Error> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(RebootStatus::Due),
            Err(source) => return Err(Error::File { action: "read", path: self.path.clone(), source }),
        };
        Ok(match text.trim().split_once(' ') {
            Some((what, _)) if what != key(wanted) => RebootStatus::Due,
            Some((_, boot)) if boot == self.boot => RebootStatus::Requested,
            Some(_) => RebootStatus::Ineffective,
            None => RebootStatus::Due,
        })
    }

    /// Write down, before it is asked for, that it is.
    pub fn record(&self, wanted: &impl Hash) -> Result<(), Error> {
        let text = format!("{} {}\n", key(wanted), self.boot);
        write_atomically(&self.path, &mut text.as_bytes(), 0o600)
    }
}

fn key(wanted: &impl Hash) -> String {
    // Stable within a version of the program, which is all it takes: another one may ask once more.
    let mut hasher = DefaultHasher::new();
    wanted.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_reboot_for_one_wish() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        fs::create_dir_all(root.state("configure")).unwrap();
        let boot = |id: &str| {
            fs::create_dir_all(root.proc_("sys/kernel/random")).unwrap();
            fs::write(root.proc_("sys/kernel/random/boot_id"), id).unwrap();
            RebootLog::open(&root).unwrap()
        };
        let first = boot("one");
        assert_eq!(first.status(&"a").unwrap(), RebootStatus::Due);
        first.record(&"a").unwrap();
        assert_eq!(first.status(&"a").unwrap(), RebootStatus::Requested);
        let second = boot("two");
        assert_eq!(second.status(&"a").unwrap(), RebootStatus::Ineffective);
        assert_eq!(second.status(&"b").unwrap(), RebootStatus::Due, "something else is wanted");
    }
}
