//! Limits reboots to one per desired configuration. If the reboot did not help, it is not repeated.

use crate::{
    Error,
    install::{create_dir, write_atomically},
};
use ferroband_kernel::{Root, boot_id};
use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io::ErrorKind,
    path::PathBuf,
};

/// Whether a desired configuration has already caused a reboot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RebootStatus {
    /// No reboot was requested for this configuration yet.
    Due,
    /// A reboot was requested during this boot and has not happened yet.
    Requested,
    /// A reboot was requested during an earlier boot. The node was rebooted, but still needs a reboot.
    Ineffective,
}

/// A file that records the hash of the desired configuration and the boot ID for the last requested reboot.
#[derive(Clone, Debug)]
pub struct RebootLog {
    path: PathBuf,
    boot: String,
}

impl RebootLog {
    pub fn open(root: &Root) -> Result<Self, Error> {
        // A root without procfs belongs to a test or a chroot on this host, so the host's boot ID applies.
        let boot = boot_id(root).or_else(|_| boot_id(&Root::default()))?;
        Ok(Self { path: root.state("configure/rebooted"), boot })
    }

    /// Returns whether a reboot for `config` was already requested. Must only be called if a reboot is
    /// needed.
    pub fn status(&self, config: &impl Hash) -> Result<RebootStatus, Error> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(RebootStatus::Due),
            Err(source) => return Err(Error::File { action: "read", path: self.path.clone(), source }),
        };
        Ok(match text.trim().split_once(' ') {
            Some((recorded, _)) if recorded != key(config) => RebootStatus::Due,
            Some((_, boot)) if boot == self.boot => RebootStatus::Requested,
            Some(_) => RebootStatus::Ineffective,
            None => RebootStatus::Due,
        })
    }

    /// Records that a reboot is requested for `config`. Must be called before the reboot.
    pub fn record(&self, config: &impl Hash) -> Result<(), Error> {
        let text = format!("{} {}\n", key(config), self.boot);
        if let Some(dir) = self.path.parent() {
            create_dir(dir)?;
        }
        write_atomically(&self.path, &mut text.as_bytes(), 0o600)
    }
}

fn key(config: &impl Hash) -> String {
    // This hash is only stable within one version of the program. That is enough: a new version may reboot the node
    // once more.
    let mut hasher = DefaultHasher::new();
    config.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_configuration_causes_at_most_one_reboot() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
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
        assert_eq!(second.status(&"b").unwrap(), RebootStatus::Due, "another configuration");
    }
}
