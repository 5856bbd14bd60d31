//! Tests that the character device `/dev/knem` is discovered.

use ferroband_kernel::Root;
use ferroband_node::discover::Inventory;
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use std::fs;

// Case: operator C102
#[test]
fn character_device_knem_is_discovered() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::at(folder.path());
    fs::create_dir_all(root.dev("")).unwrap();
    assert_eq!(Inventory::read(&root, false).unwrap().knem, None);
    mknod(&root.dev("knem"), SFlag::S_IFCHR, Mode::S_IRUSR, makedev(1, 3)).unwrap();
    assert_eq!(Inventory::read(&root, false).unwrap().knem, Some(root.dev("knem")));
}
