//! Names and numbers that the kernel hands out, the lowest free one first, and the device files that have
//! them.
//!
//! A container may open a device file only if its number is in the device list that the runtime made, so
//! these must be real character devices whose numbers no container has by default. Virtual terminals (major
//! 4, minors 1 to 63; Documentation/admin-guide/devices.txt) are such, open on machines without InfiniBand,
//! and do no harm. When they run out, and for the management files of virtual functions, numbers come from a
//! major that is kept for local use: these can be given to containers and refused to them like all others,
//! but there is nothing to open.

use crate::state::SimState;
use crate::{Error, files};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// TTY_MAJOR of linux/major.h, and how many of its minors are virtual terminals other than the console
/// itself.
const TTY_NUMBERS: (u32, u32) = (4, 63);
/// LOCAL/EXPERIMENTAL USE of Documentation/admin-guide/devices.txt; minors are twenty bits.
const LOCAL_NUMBERS: (u32, u32) = (120, 0xf_ffff);

/// The connection manager's file.
pub(crate) const RDMA_CM: (&str, DeviceNode) = ("rdma_cm", DeviceNode { index: 0, major: 4, minor: 1 });

/// A device file: its number in its name, and its device number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct DeviceNode {
    pub(crate) index: u32,
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

/// What is handed out already.
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

    /// `wanted` if nobody has it, else its beginning with the lowest free number: `mlx5_4`.
    pub(crate) fn allocate_name(&mut self, wanted: &str) -> String {
        let beginning = wanted.trim_end_matches(|digit: char| digit.is_ascii_digit());
        let numbered = (0..=u32::MAX).map(|number| format!("{beginning}{number}"));
        let free = std::iter::once(wanted.to_owned()).chain(numbered).find(|name| !self.names.contains(name));
        let name = free.unwrap_or_else(|| wanted.to_owned());
        self.names.insert(name.clone());
        name
    }

    /// Keeps a name for whoever it belongs to.
    pub(crate) fn reserve_name(&mut self, name: &str) {
        self.names.insert(name.to_owned());
    }

    /// A file for verbs.
    pub(crate) fn allocate_uverbs(&mut self) -> DeviceNode {
        let index = lowest(&self.verbs);
        self.verbs.insert(index);
        self.allocate_node(index, true)
    }

    /// The two files of a port of InfiniBand; of one number, as they have it in the kernel.
    pub(crate) fn allocate_mad_nodes(&mut self, opens: bool) -> (DeviceNode, DeviceNode) {
        let index = lowest(&self.managed);
        self.managed.insert(index);
        (self.allocate_node(index, opens), self.allocate_node(index, opens))
    }

    fn allocate_node(&mut self, index: u32, opens: bool) -> DeviceNode {
        let (terminal, last) = TTY_NUMBERS;
        let terminals = (1..=last).map(|minor| (terminal, minor)).filter(|_| opens);
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
    /// Its number as sysfs writes it.
    pub(crate) fn dev_number(self) -> String {
        format!("{}:{}", self.major, self.minor)
    }

    /// Makes the device file, with the mode that rdma-core's udev rules set.
    pub(crate) fn create(self, path: &Path, mode: u32) -> Result<(), Error> {
        files::remove_file(path)?;
        let number = makedev(self.major.into(), self.minor.into());
        mknod(path, SFlag::S_IFCHR, Mode::from_bits_truncate(mode), number)
            .map_err(|errno| files::file_error("make device file", path, errno.into()))?;
        // mknod's mode is cut by the umask.
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
    fn the_lowest_free_ones_first() {
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
    fn a_name_that_is_taken_becomes_the_next_number() {
        let mut numbers = numbers();
        let names: Vec<_> =
            ["mlx5_0", "mlx5_3", "mlx5_0", "mlx5_0", "mlx5_0"].map(|name| numbers.allocate_name(name)).into();
        assert_eq!(names, ["mlx5_0", "mlx5_3", "mlx5_1", "mlx5_2", "mlx5_4"]);
    }

    #[test]
    fn no_number_is_given_twice_when_the_terminals_run_out() {
        let mut numbers = numbers();
        let given: BTreeSet<_> =
            (0..200).map(|_| numbers.allocate_uverbs()).map(|node| (node.major, node.minor)).collect();
        assert_eq!(given.len(), 200);
        assert_eq!(given.iter().filter(|(major, _)| *major == 4).count(), 62);
    }
}
