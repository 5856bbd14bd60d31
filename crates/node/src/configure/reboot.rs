//! Reboots: at most one for each thing that is wanted, and none that does not help.

use crate::{Error, install::replace};
use ferroband_kernel::{Root, boot_id};
use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io::ErrorKind,
    path::PathBuf,
};

/// How it stands with the reboot for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reboot {
    /// It was not asked for yet.
    Due,
    /// It was asked for in this boot.
    Asked,
    /// It happened, and did not help.
    Useless,
}

/// What was rebooted for.
#[derive(Clone, Debug)]
pub struct Reboots {
    path: PathBuf,
    boot: String,
}

impl Reboots {
    /// Those of the machine under `root`.
    pub fn under(root: &Root) -> Result<Self, Error> {
        // A root without procfs is a test's, or a chroot on this machine.
        let boot = boot_id(root).or_else(|_| boot_id(&Root::default()))?;
        Ok(Self { path: root.state("configure/rebooted"), boot })
    }

    /// How it stands with the reboot for `wanted`.
    pub fn state(&self, wanted: &impl Hash) -> Result<Reboot, Error> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Reboot::Due),
            Err(source) => return Err(Error::File { action: "read", path: self.path.clone(), source }),
        };
        Ok(match text.trim().split_once(' ') {
            Some((what, _)) if what != key(wanted) => Reboot::Due,
            Some((_, boot)) if boot == self.boot => Reboot::Asked,
            Some(_) => Reboot::Useless,
            None => Reboot::Due,
        })
    }

    /// Write down, before it is asked for, that it is.
    pub fn note(&self, wanted: &impl Hash) -> Result<(), Error> {
        let text = format!("{} {}\n", key(wanted), self.boot);
        replace(&self.path, &mut text.as_bytes(), 0o600)
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
            Reboots::under(&root).unwrap()
        };
        let first = boot("one");
        assert_eq!(first.state(&"a").unwrap(), Reboot::Due);
        first.note(&"a").unwrap();
        assert_eq!(first.state(&"a").unwrap(), Reboot::Asked);
        let second = boot("two");
        assert_eq!(second.state(&"a").unwrap(), Reboot::Useless);
        assert_eq!(second.state(&"b").unwrap(), Reboot::Due, "something else is wanted");
    }
}
