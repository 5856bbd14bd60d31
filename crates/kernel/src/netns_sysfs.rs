//! sysfs as another network namespace sees it.

use crate::{Error, Netns, Root};
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};

/// Mounts a sysfs of `netns` in a mount namespace of its own, lets `look` read it, and leaves nothing behind.
///
/// Class directories of interfaces and RDMA devices show what belongs to the namespace that sysfs was mounted
/// in (sysfs(5), kernfs namespaces), so entering the namespace is not enough. Device files are the host's.
pub(crate) fn with_netns_sysfs(
    root: &Root,
    netns: &Netns,
    look: &mut (dyn FnMut(&Root) + Send),
) -> Result<(), Error> {
    let failed = |doing| move |errno: Errno| Error::Netns { doing, path: netns.path().to_owned(), errno };
    let inside = || {
        // The thread ends after this, and its mounts with it.
        unshare(CloneFlags::CLONE_NEWNS).map_err(failed("get a mount namespace for"))?;
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, private, None::<&str>)
            .map_err(failed("keep apart the mounts of"))?;
        setns(netns.fd(), CloneFlags::CLONE_NEWNET).map_err(failed("enter"))?;
        let flags = MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        let place = root.sys("");
        mount(Some("sysfs"), &place, Some("sysfs"), flags, None::<&str>).map_err(failed("mount sysfs of"))?;
        look(root);
        Ok(())
    };
    std::thread::scope(|scope| match scope.spawn(inside).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}
