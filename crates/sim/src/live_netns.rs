//! Detection of deleted network namespaces.

use ferroband_kernel::NetnsId;
use std::collections::BTreeSet;
use std::fs::{read_dir, read_link, read_to_string};
use std::path::Path;

/// Target of `/proc/self/ns/pid` in the initial PID namespace (PROC_PID_INIT_INO of linux/proc_ns.h).
const INITIAL: &str = "pid:[4026531836]";

/// Returns the namespaces of `candidates` that no longer exist. A thread, a file descriptor or a mount keeps
/// a namespace alive. Only a process in the initial PID namespace sees all of these; in any other PID
/// namespace the result is empty.
pub(crate) fn find_ended(candidates: &[NetnsId]) -> Vec<NetnsId> {
    let initial = read_link("/proc/self/ns/pid").is_ok_and(|name| name == Path::new(INITIAL));
    if candidates.is_empty() || !initial {
        return Vec::new();
    }
    let alive = live_inodes();
    candidates.iter().filter(|id| !alive.contains(&id.inode)).copied().collect()
}

/// Inode numbers of all network namespaces in use.
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
        // Mounts differ between mount namespaces, so those of every process are read. The fourth field is the
        // root of the mount, which is `net:[…]` for a bind mount of a network namespace.
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

/// Returns the number in a text such as `net:[4026531840]`.
fn parse_inode(text: &str) -> Option<u64> {
    text.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroband_kernel::Netns;

    #[test]
    fn own_namespace_is_live_and_an_unknown_one_has_ended() {
        let own = Netns::current().unwrap().id();
        let unknown = NetnsId { inode: 1, ..own };
        let ended = find_ended(&[own, unknown]);
        assert!(!ended.contains(&own));
        let initial = read_link("/proc/self/ns/pid").unwrap() == Path::new(INITIAL);
        assert_eq!(ended.contains(&unknown), initial);
    }
}
