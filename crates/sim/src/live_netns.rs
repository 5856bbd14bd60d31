//! Which network namespaces there are.

use ferroband_kernel::NetnsId;
use std::collections::BTreeSet;
use std::fs::{read_dir, read_link, read_to_string};
use std::path::Path;

/// PROC_PID_INIT_INO of linux/proc_ns.h: the initial PID namespace.
const INITIAL: &str = "pid:[4026531836]";

/// The namespaces among `wanted` that have ended. What keeps one is a thread in it, a descriptor or a mount;
/// only a process of the initial PID namespace sees all of these, and to any other none has ended.
pub(crate) fn find_ended(wanted: &[NetnsId]) -> Vec<NetnsId> {
    let initial = read_link("/proc/self/ns/pid").is_ok_and(|name| name == Path::new(INITIAL));
    if wanted.is_empty() || !initial {
        return Vec::new();
    }
    let alive = live_inodes();
    wanted.iter().filter(|id| !alive.contains(&id.inode)).copied().collect()
}

/// The inodes of all namespaces that anything keeps.
fn live_inodes() -> BTreeSet<u64> {
    let mut alive = BTreeSet::new();
    for process in entries(Path::new("/proc")) {
        if !process.file_name().is_some_and(|name| name.as_encoded_bytes().iter().all(u8::is_ascii_digit)) {
            continue;
        }
        for thread in entries(&process.join("task")) {
            alive.extend(inode(&thread.join("ns/net")));
        }
        for descriptor in entries(&process.join("fd")) {
            alive.extend(inode(&descriptor));
        }
        // Mounts differ between mount namespaces; a bind mount shows its namespace as the root of the mount.
        let mounts = read_to_string(process.join("mountinfo")).unwrap_or_default();
        alive.extend(mounts.lines().filter_map(|line| parse_inode(line.split(' ').nth(3)?)));
    }
    alive
}

fn entries(directory: &Path) -> impl Iterator<Item = std::path::PathBuf> {
    read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn inode(link: &Path) -> Option<u64> {
    parse_inode(read_link(link).ok()?.to_str()?)
}

/// The number in `net:[4026531840]`.
fn parse_inode(text: &str) -> Option<u64> {
    text.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroband_kernel::Netns;

    #[test]
    fn the_own_one_is_alive_and_a_made_up_one_is_not() {
        let own = Netns::current().unwrap().id();
        let made_up = NetnsId { inode: 1, ..own };
        let seen = find_ended(&[own, made_up]);
        assert!(!seen.contains(&own));
        let initial = read_link("/proc/self/ns/pid").unwrap() == Path::new(INITIAL);
        assert_eq!(seen.contains(&made_up), initial);
    }
}
