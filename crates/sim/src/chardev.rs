//! The device files of simulated adapters.
//!
//! A container may open a device file only if its number is in the device list that the runtime made, so these
//! must be real character devices whose numbers no container has by default. Virtual terminals (major 4, minors
//! 1 to 63; Documentation/admin-guide/devices.txt) are such, open on machines without InfiniBand, and do no harm.

use crate::{Error, Profile, files};
use ferroband_model::LinkLayer;
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// TTY_MAJOR of linux/major.h.
const MAJOR: u32 = 4;
/// How many of its minors are virtual terminals other than the console itself.
const MOST: usize = 63;

/// A device file to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CharDevice {
    /// Its name in `dev/infiniband`.
    pub(crate) name: String,
    /// The directory in sysfs's `class` that announces it.
    pub(crate) class: &'static str,
    /// The adapter it belongs to, by position; none for the connection manager.
    pub(crate) hca: Option<usize>,
    /// The port it belongs to, from 1; none when it is the whole adapter's.
    pub(crate) port: Option<usize>,
    /// Its minor number.
    pub(crate) minor: u32,
    /// Its mode, as rdma-core's udev rules set it.
    mode: u32,
}

impl CharDevice {
    /// Its number as sysfs writes it.
    pub(crate) fn number(&self) -> String {
        format!("{MAJOR}:{}", self.minor)
    }
}

/// All device files of the profile, numbered.
pub(crate) fn list(profile: &Profile) -> Result<Vec<CharDevice>, Error> {
    let mut devices: Vec<CharDevice> = Vec::new();
    let mut add = |name, class, hca, port, mode| {
        let minor = u32::try_from(devices.len()).unwrap_or(u32::MAX).saturating_add(1);
        devices.push(CharDevice { name, class, hca, port, minor, mode });
    };
    let mut managed = 0;
    add("rdma_cm".to_owned(), "misc", None, None, 0o666);
    for (position, hca) in profile.hcas.iter().enumerate() {
        add(format!("uverbs{position}"), "infiniband_verbs", Some(position), None, 0o666);
        for (index, port) in hca.ports.iter().enumerate() {
            if port.link_layer == LinkLayer::InfiniBand {
                let port = Some(index + 1);
                add(format!("umad{managed}"), "infiniband_mad", Some(position), port, 0o600);
                add(format!("issm{managed}"), "infiniband_mad", Some(position), port, 0o600);
                managed += 1;
            }
        }
    }
    match devices.len() {
        count if count > MOST => {
            Err(Error::TooManyDevices { profile: profile.name.clone(), count, most: MOST })
        }
        _ => Ok(devices),
    }
}

/// Makes the device files in `directory`.
pub(crate) fn make(directory: &Path, devices: &[CharDevice]) -> Result<(), Error> {
    files::directory(directory)?;
    for device in devices {
        let path = directory.join(&device.name);
        let number = makedev(MAJOR.into(), device.minor.into());
        mknod(&path, SFlag::S_IFCHR, Mode::from_bits_truncate(device.mode), number)
            .map_err(|errno| files::error("make device file", &path, errno.into()))?;
        // mknod's mode is cut by the umask.
        set_permissions(&path, Permissions::from_mode(device.mode))
            .map_err(|source| files::error("set the mode of", &path, source))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn infiniband_ports_are_managed_and_ethernet_ports_are_not() {
        let mut profile = Profile::default();
        let mut ethernet = profile.hcas[0].clone();
        ethernet.ports[0].link_layer = LinkLayer::Ethernet;
        let last = profile.hcas[0].clone();
        profile.hcas.extend([ethernet, last]);
        let devices = list(&profile).unwrap();
        let seen: Vec<_> =
            devices.iter().map(|device| (device.name.as_str(), device.hca, device.minor)).collect();
        assert_eq!(
            seen,
            [
                ("rdma_cm", None, 1),
                ("uverbs0", Some(0), 2),
                ("umad0", Some(0), 3),
                ("issm0", Some(0), 4),
                ("uverbs1", Some(1), 5),
                ("uverbs2", Some(2), 6),
                ("umad1", Some(2), 7),
                ("issm1", Some(2), 8),
            ]
        );
    }

    #[test]
    fn the_numbers_run_out() {
        let mut profile = Profile::default();
        // One for the connection manager and three for each adapter.
        profile.hcas = vec![profile.hcas[0].clone(); 20];
        assert_eq!(list(&profile).unwrap().last().unwrap().minor, 61);
        profile.hcas.push(profile.hcas[0].clone());
        assert!(matches!(list(&profile), Err(Error::TooManyDevices { count: 64, most: 63, .. })));
    }
}
