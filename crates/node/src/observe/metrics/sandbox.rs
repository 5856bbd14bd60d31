//! RDMA devices that live in a pod's namespace.
//!
//! In exclusive mode a device is out of the host's sight as soon as it is a pod's. sysfs shows the devices of the
//! namespace that it was mounted from, so each pod's is mounted for a moment, where nobody else sees it: on a thread
//! with mounts of its own, which go with the thread. Nothing is opened for longer than that.

use super::Owner;
use crate::{
    caches::{Cache, PodOwner},
    discover::sysfs::{names, text},
};
use ferroband_kernel::{Netns, Root};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};
use serde_json::Value;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// A pod's namespace, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// Where the namespace is.
    pub netns: PathBuf,
    /// The pod.
    pub owner: Owner,
}

/// The sandboxes of which we keep a journal.
pub fn sandboxes(root: &Root, pods: &Cache<PodOwner>) -> Vec<Sandbox> {
    let folder = root.state("journal");
    let journals = names(&folder).into_iter().filter(|name| name.ends_with(".json"));
    let sandbox = |name: String| {
        let journal: Value = serde_json::from_str(&text(&folder.join(name))?).ok()?;
        let netns = PathBuf::from(journal["netns"].as_str()?);
        let pod = |field: &str| journal["pod"][field].as_str().map(str::to_owned);
        let (namespace, name, uid) = (pod("namespace")?, pod("name")?, pod("uid"));
        let known = pods.find(|facts| Some(&facts.uid) == uid.as_ref());
        let controller = known.and_then(|(_, facts)| facts.controller.clone());
        Some(Sandbox { netns, owner: Owner { namespace, name, controller } })
    };
    journals.filter_map(sandbox).collect()
}

/// Do `work` with the trees of the namespace at `netns`; nothing when it is gone or cannot be entered. `place` is a
/// folder of ours that nothing else is mounted on.
pub fn inside<T: Send>(netns: &Path, place: &Path, work: impl FnOnce(&Root) -> T + Send) -> Option<T> {
    fs::create_dir_all(place.join("sys")).ok()?;
    let namespace = Netns::open(netns).ok()?;
    let entered = namespace.run(|| {
        look_from_here(&place.join("sys"))?;
        Ok::<_, io::Error>(work(&Root::at(place)))
    });
    entered.ok()?.ok()
}

/// Mount the sysfs of this thread's network namespace at `place`, for this thread alone.
fn look_from_here(place: &Path) -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    // Else the mount would be everybody's.
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
    let flags = MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("sysfs"), place, Some("sysfs"), flags, None::<&str>)?;
    Ok(())
}
