//! Files that tell udev and NetworkManager to leave the interfaces of pods alone.
//!
//! Without them, NetworkManager brings up every new virtual function and requests an address for it, and does the same
//! with interfaces that are created in the host's network namespace and then moved into a pod.

use super::{create_dir, write_atomically};
use crate::error::error_chain;
use ferroband_kernel::Root;
use std::{
    fs,
    path::{Path, PathBuf},
};
use tracing::{info, warn};

/// A file for another program of the host.
struct HostRules {
    /// The program's directory. It is empty on a host without the program: the mount of the daemon's pod creates it.
    program_dir: &'static str,
    path: &'static str,
    content: &'static str,
}

const HOST_RULES: [HostRules; 2] = [
    HostRules {
        program_dir: "etc/udev",
        path: "etc/udev/rules.d/90-ferroband.rules",
        // udev reads new rules by itself. The temporary name of an IPoIB child is veth and 11 hexadecimal digits;
        // 32 is its link type.
        content: "\
# Written by Ferroband, removed with it. NetworkManager must not manage virtual functions of Mellanox adapters,
# nor the interfaces that Ferroband creates for pods.
SUBSYSTEM==\"net\", ACTION!=\"remove\", TEST==\"device/physfn\", ATTRS{vendor}==\"0x15b3\", ENV{NM_UNMANAGED}=\"1\"
SUBSYSTEM==\"net\", ACTION!=\"remove\", KERNEL==\"veth???????????\", ATTR{type}==\"32\", ENV{NM_UNMANAGED}=\"1\"
",
    },
    HostRules {
        program_dir: "etc/NetworkManager",
        path: "etc/NetworkManager/conf.d/90-ferroband.conf",
        // NetworkManager cannot select virtual functions; the udev rule does that.
        content: "\
# Written by Ferroband, removed with it. Interfaces that Ferroband creates for pods.
[keyfile]
unmanaged-devices+=interface-name:veth???????????;interface-name:vetp???????????
",
    },
];

/// Writes the files of the programs that the host has. A host that does not allow it works without them.
pub fn install_host_rules(root: &Root) {
    for rules in &HOST_RULES {
        let path = root.path(rules.path);
        if !has_entries(&root.path(rules.program_dir))
            || fs::read_to_string(&path).is_ok_and(|now| now == rules.content)
        {
            continue;
        }
        let parent = path.parent().unwrap_or(Path::new("/"));
        let written =
            create_dir(parent).and_then(|()| write_atomically(&path, &mut rules.content.as_bytes(), 0o644));
        match written {
            Ok(()) => info!(file = %path.display(), "rules for interfaces of pods written"),
            Err(e) => {
                warn!(error = %error_chain(&e), "NetworkManager may configure virtual functions on this node");
            }
        }
    }
}

/// The files that an uninstallation removes, relative to the root.
pub(super) fn paths() -> impl Iterator<Item = PathBuf> {
    HOST_RULES.iter().map(|rules| PathBuf::from(rules.path))
}

fn has_entries(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}
