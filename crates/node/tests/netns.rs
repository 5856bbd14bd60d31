//! What needs root: network namespaces and device files.

#![expect(clippy::unwrap_used, reason = "a test ends where it fails")]

use ferroband_kernel::Root;
use ferroband_node::{discover::Inventory, observe::metrics::inside};
use nix::{
    sched::{CloneFlags, unshare},
    sys::stat::{Mode, SFlag, makedev, mknod},
};
use std::{fs, path::Path, process::Command, thread};

/// The interfaces that sysfs under `root` shows.
fn interfaces(sys: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(sys.join("class/net"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        // Of the bonding module, in every namespace.
        .filter(|name| name != "bonding_masters")
        .collect();
    names.sort();
    names
}

#[test]
fn a_pods_sysfs_is_seen_and_nobody_elses_mounts_change() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_owned();
    // A namespace with an interface that is nowhere else, held by this thread.
    let holder = thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        let add = Command::new("ip").args(["link", "add", "ferro-seen", "type", "bridge"]).status();
        assert!(add.unwrap().success());
        let netns = fs::read_link("/proc/thread-self").unwrap();
        let netns = Path::new("/proc").join(netns).join("ns/net");
        let seen = inside(&netns, &place, |root| interfaces(&root.sys(""))).expect("entered");
        let again = inside(&netns, &place, |root| interfaces(&root.sys(""))).expect("entered again");
        assert_eq!(seen, again);
        assert!(seen.contains(&"ferro-seen".to_owned()), "{seen:?}");
        assert!(!place.join("sys/class").exists(), "the mount is gone with its thread");
        assert!(inside(&place.join("none"), &place, |_| ()).is_none());
    });
    holder.join().unwrap();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(&*folder.path().to_string_lossy()), "{mounts}");
    assert!(!interfaces(Path::new("/sys")).contains(&"ferro-seen".to_owned()));
}

#[test]
fn c102_a_character_device_called_knem_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::at(folder.path());
    fs::create_dir_all(root.dev("")).unwrap();
    assert_eq!(Inventory::read(&root, false).unwrap().knem, None);
    mknod(&root.dev("knem"), SFlag::S_IFCHR, Mode::S_IRUSR, makedev(1, 3)).unwrap();
    assert_eq!(Inventory::read(&root, false).unwrap().knem, Some(root.dev("knem")));
}
