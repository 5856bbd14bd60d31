//! Allocation of the names and numbers that the kernel would assign (the lowest free ones), and device nodes.
//!
//! A container may open a device node only if its number is in the device list of the runtime, so these must be
//! real character devices whose numbers no container is allowed by default. Virtual terminals (major 4, minors 1 to
//! 63; Documentation/admin-guide/devices.txt) meet this, can be opened on hosts without InfiniBand and are
//! harmless. When they are exhausted, and for the management files of virtual functions, numbers are taken from a
//! major reserved for local use: access to them can be granted and denied as usual, but they cannot be opened.

use crate::state::SimState;
use crate::{Error, files};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Major number of virtual terminals (TTY_MAJOR of linux/major.h), and their highest minor number.
const TTY_NUMBERS: (u32, u32) = (4, 63);
/// Major number for local and experimental use (Documentation/admin-guide/devices.txt), and the highest minor
/// number, which has twenty bits.
const LOCAL_NUMBERS: (u32, u32) = (120, 0xf_ffff);

/// Name and device node of the RDMA connection manager.
pub(crate) const RDMA_CM: (&str, DeviceNode) = ("rdma_cm", DeviceNode { index: 0, major: 4, minor: 1 });

/// A device node: the number in its name (0 in `uverbs0`), and its major and minor device number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct DeviceNode {
    pub(crate) index: u32,
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

/// Tracks which device names and device numbers are in use.
#[derive(Debug, Default)]
pub(crate) struct NumberAllocator {
    names: BTreeSet<String>,
    verbs: BTreeSet<u32>,
    managed: BTreeSet<u32>,
    devices: BTreeSet<(u32, u32)>,
}

impl NumberAllocator {
    pub(crate) fn from_state(state: &SimState) -> Self {
        let mut numbers = Self::default();
        let (_, manager) = RDMA_CM;
        numbers.devices.insert((manager.major, manager.minor));
        for (_, device) in state.devices() {
            numbers.names.insert(device.name.clone());
            numbers.verbs.insert(device.verbs.index);
            numbers.managed.extend(device.managed.iter().map(|(_, umad, _)| umad.index));
            let files = device.managed.iter().flat_map(|(_, umad, issm)| [umad, issm]);
            let files = files.chain([&device.verbs]).map(|node| (node.major, node.minor));
            numbers.devices.extend(files);
        }
        numbers
    }

    /// Returns `requested` if it is free, otherwise its prefix with the lowest free number, for example
    /// `mlx5_4`.
    pub(crate) fn allocate_name(&mut self, requested: &str) -> String {
        let prefix = requested.trim_end_matches(|digit: char| digit.is_ascii_digit());
        let numbered = (0..=u32::MAX).map(|number| format!("{prefix}{number}"));
        let free =
            std::iter::once(requested.to_owned()).chain(numbered).find(|name| !self.names.contains(name));
        let name = free.unwrap_or_else(|| requested.to_owned());
        self.names.insert(name.clone());
        name
    }

    pub(crate) fn reserve_name(&mut self, name: &str) {
        self.names.insert(name.to_owned());
    }

    pub(crate) fn allocate_uverbs(&mut self) -> DeviceNode {
        let index = lowest(&self.verbs);
        self.verbs.insert(index);
        self.allocate_node(index, true)
    }

    /// Allocates the umad and issm nodes of an InfiniBand port. Both have the same index, as in the kernel.
    pub(crate) fn allocate_mad_nodes(&mut self, openable: bool) -> (DeviceNode, DeviceNode) {
        let index = lowest(&self.managed);
        self.managed.insert(index);
        (self.allocate_node(index, openable), self.allocate_node(index, openable))
    }

    fn allocate_node(&mut self, index: u32, openable: bool) -> DeviceNode {
        let (terminal, last) = TTY_NUMBERS;
        let terminals = (1..=last).map(|minor| (terminal, minor)).filter(|_| openable);
        let (local, last) = LOCAL_NUMBERS;
        let local = (0..=last).map(|minor| (local, minor));
        let free = terminals.chain(local).find(|number| !self.devices.contains(number));
        let (major, minor) = free.unwrap_or((LOCAL_NUMBERS.0, LOCAL_NUMBERS.1));
        self.devices.insert((major, minor));
        DeviceNode { index, major, minor }
    }
}

fn lowest(taken: &BTreeSet<u32>) -> u32 {
    (0..=u32::MAX).find(|number| !taken.contains(number)).unwrap_or(u32::MAX)
}

impl DeviceNode {
    /// Returns the major and the minor number in the format of sysfs, for example `4:1`.
    pub(crate) fn dev_number(self) -> String {
        format!("{}:{}", self.major, self.minor)
    }

    /// Creates the device node at `path`, or replaces an existing one.
    pub(crate) fn create(self, path: &Path, mode: u32) -> Result<(), Error> {
        files::remove_file(path)?;
        let number = makedev(self.major.into(), self.minor.into());
        mknod(path, SFlag::S_IFCHR, Mode::from_bits_truncate(mode), number)
            .map_err(|errno| files::file_error("create device file", path, errno.into()))?;
        // mknod applies the umask to the mode, so set the mode again.
        set_permissions(path, Permissions::from_mode(mode))
            .map_err(|source| files::file_error("set the mode of", path, source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers() -> NumberAllocator {
        NumberAllocator::from_state(&SimState::default())
    }

    #[test]
    fn lowest_free_numbers_are_allocated_first() {
        let mut numbers = numbers();
        assert_eq!(
            numbers.allocate_uverbs(),
            DeviceNode { index: 0, major: 4, minor: 2 },
            "the connection manager has the first"
        );
        assert_eq!(numbers.allocate_mad_nodes(true).1, DeviceNode { index: 0, major: 4, minor: 4 });
        assert_eq!(numbers.allocate_uverbs(), DeviceNode { index: 1, major: 4, minor: 5 });
        assert_eq!(numbers.allocate_mad_nodes(false).0, DeviceNode { index: 1, major: 120, minor: 0 });
    }

    #[test]
    fn name_in_use_gets_the_next_free_number() {
        let mut numbers = numbers();
        let names: Vec<_> =
            ["mlx5_0", "mlx5_3", "mlx5_0", "mlx5_0", "mlx5_0"].map(|name| numbers.allocate_name(name)).into();
        assert_eq!(names, ["mlx5_0", "mlx5_3", "mlx5_1", "mlx5_2", "mlx5_4"]);
    }

    #[test]
    fn device_numbers_stay_unique_when_terminals_are_exhausted() {
        let mut numbers = numbers();
        let allocated: BTreeSet<_> =
            (0..200).map(|_| numbers.allocate_uverbs()).map(|node| (node.major, node.minor)).collect();
        assert_eq!(allocated.len(), 200);
        assert_eq!(allocated.iter().filter(|(major, _)| *major == 4).count(), 62);
    }
}
