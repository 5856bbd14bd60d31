//! Limits reboots to one per desired configuration. If the reboot did not help, it is not repeated.

use super::DesiredNodeConfig;
use crate::{
    Error,
    install::{create_dir, write_atomically},
};
use ferroband_kernel::{Root, boot_id};
use ferroband_model::fnv1a;
use std::{fmt::Write, fs, io::ErrorKind, path::PathBuf};

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
    pub fn status(&self, config: &DesiredNodeConfig) -> Result<RebootStatus, Error> {
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
    pub fn record(&self, config: &DesiredNodeConfig) -> Result<(), Error> {
        let text = format!("{} {}\n", key(config), self.boot);
        if let Some(dir) = self.path.parent() {
            create_dir(dir)?;
        }
        write_atomically(&self.path, &mut text.as_bytes(), 0o600)
    }
}

/// Identifies what a reboot may be needed for. The file outlives the program, so the text must not change with the
/// names of types or fields: otherwise each new version would reboot the node once more.
fn key(config: &DesiredNodeConfig) -> String {
    let mut text = format!("rdma {}\n", config.rdma_mode.map(|mode| mode.to_string()).unwrap_or_default());
    for (pci, adapter) in &config.adapters {
        let link = adapter.link_layer.map(|link| link.to_string()).unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{pci} vfs {} link {link} external {}",
            adapter.vf_count, adapter.externally_managed
        );
    }
    format!("{:016x}", fnv1a(text.bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn config(count: u16) -> DesiredNodeConfig {
        let spec = json!({
            "interfaces": [{
                "pciAddress": "0000:3b:00.0", "numVfs": count, "linkType": "ib",
                "vfGroups": [{"resourceName": "r", "vfRange": "0-3", "policyName": "p"}],
            }],
            "system": {"rdmaMode": "exclusive"},
        });
        DesiredNodeConfig::from_spec(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn each_configuration_causes_at_most_one_reboot() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        let boot = |id: &str| {
            fs::create_dir_all(root.proc_("sys/kernel/random")).unwrap();
            fs::write(root.proc_("sys/kernel/random/boot_id"), id).unwrap();
            RebootLog::open(&root).unwrap()
        };
        let (a, b) = (config(16), config(32));
        let first = boot("one");
        assert_eq!(first.status(&a).unwrap(), RebootStatus::Due);
        first.record(&a).unwrap();
        assert_eq!(first.status(&a).unwrap(), RebootStatus::Requested);
        let second = boot("two");
        assert_eq!(second.status(&a).unwrap(), RebootStatus::Ineffective);
        assert_eq!(second.status(&b).unwrap(), RebootStatus::Due, "another configuration");
    }

    /// The hash of the text in the comment, computed outside of this program.
    #[test]
    fn record_is_understood_by_other_versions() {
        // rdma exclusive\n0000:3b:00.0 vfs 16 link InfiniBand external false\n
        assert_eq!(key(&config(16)), "a872a3843c17e3f2");
        let mut renamed = config(16);
        renamed.adapters.values_mut().for_each(|adapter| adapter.groups[0].policy = "other".to_owned());
        assert_eq!(key(&renamed), key(&config(16)), "no reboot is needed for the name of a policy");
    }
}
