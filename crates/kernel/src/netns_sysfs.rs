//! Access to the sysfs of another network namespace.

use crate::{Error, Netns, Root};
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// Calls `read` on a new thread that has its own mount namespace, in which the sysfs of `netns` is mounted. The
/// mount disappears when the thread ends.
///
/// The class directories of interfaces and RDMA devices show the objects of the namespace in which sysfs was
/// mounted (sysfs(5), kernfs namespaces), so entering the network namespace is not sufficient. Device files are
/// still those of the host.
pub(crate) fn with_netns_sysfs(
    root: &Root,
    netns: &Netns,
    read: &mut (dyn FnMut(&Root) + Send),
) -> Result<(), Error> {
    let failed = |doing| move |errno: Errno| Error::Netns { doing, path: netns.path().to_owned(), errno };
    netns.run(|| {
        // The kernel removes the mount namespace when this thread ends.
        unshare(CloneFlags::CLONE_NEWNS).map_err(failed("create a mount namespace for"))?;
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, private, None::<&str>)
            .map_err(failed("make mounts private for"))?;
        let flags = MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        let mount_point = root.sys("");
        mount(Some("sysfs"), &mount_point, Some("sysfs"), flags, None::<&str>)
            .map_err(failed("mount sysfs of"))?;
        read(root);
        Ok(())
    })?
}
