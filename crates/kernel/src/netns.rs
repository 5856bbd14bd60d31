//! Open network namespaces: identifying them and running code in them.

use crate::{Error, Root};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::stat::{Mode, fstat};
use nix::sys::statfs::{NSFS_MAGIC, fstatfs};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

nix::ioctl_none!(
    /// NS_GET_NSTYPE of linux/nsfs.h: the type of the namespace of a descriptor.
    ns_get_nstype, 0xb7, 0x3
);

/// A network namespace, kept alive by an open file descriptor.
#[derive(Debug)]
pub struct Netns {
    fd: OwnedFd,
    path: PathBuf,
    id: NetnsId,
}

/// Identifies a network namespace independently of its path. Valid within one boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NetnsId {
    /// Device number of nsfs.
    pub dev: u64,
    /// Inode of the namespace on nsfs.
    pub inode: u64,
}

impl fmt::Display for NetnsId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "net:[{}]", self.inode)
    }
}

impl Netns {
    /// Opens the network namespace of the calling thread.
    pub fn current() -> Result<Self, Error> {
        // `/proc/self` is the main thread, which may be in another namespace.
        Self::open("/proc/thread-self/ns/net")
    }

    /// Opens the namespace at `path`. Returns [`Error::NoNetns`] if the path does not exist or is empty, and
    /// [`Error::NotNetns`] if it is anything other than a network namespace.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        // O_NONBLOCK, because the path may be a FIFO, on which open(2) would block.
        match open(path, OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK, Mode::empty()) {
            Ok(fd) => Self::from_checked_fd(fd, path.to_owned()),
            Err(Errno::ENOENT | Errno::ENOTDIR) => Err(Error::NoNetns { path: path.to_owned() }),
            // The path is a Unix socket, for which open(2) returns ENXIO.
            Err(Errno::ENXIO) => Err(Error::NotNetns { path: path.to_owned() }),
            Err(errno) => Err(Error::Netns { doing: "open", path: path.to_owned(), errno }),
        }
    }

    /// The namespace of a file descriptor received from another process. Returns [`Error::NotNetns`] if the
    /// descriptor is not a network namespace.
    pub fn from_fd(fd: OwnedFd) -> Result<Self, Error> {
        let path = PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()));
        Self::from_checked_fd(fd, path)
    }

    /// Duplicates the file descriptor of the namespace.
    pub fn try_clone(&self) -> Result<Self, Error> {
        match self.fd.try_clone() {
            Ok(fd) => Ok(Self { fd, path: self.path.clone(), id: self.id }),
            Err(source) => {
                Err(Error::File { doing: "duplicate the descriptor of", path: self.path.clone(), source })
            }
        }
    }

    fn from_checked_fd(fd: OwnedFd, path: PathBuf) -> Result<Self, Error> {
        let failed = |errno| Error::Netns { doing: "inspect", path: path.clone(), errno };
        if fstatfs(&fd).map_err(failed)?.filesystem_type() != NSFS_MAGIC {
            return Err(Error::NotNetns { path });
        }
        if nstype(&fd).map_err(failed)? != CloneFlags::CLONE_NEWNET.bits() {
            return Err(Error::NotNetns { path });
        }
        let stat = fstat(&fd).map_err(failed)?;
        Ok(Self { fd, path, id: NetnsId { dev: stat.st_dev, inode: stat.st_ino } })
    }

    pub fn id(&self) -> NetnsId {
        self.id
    }

    /// The open file descriptor, for requests to the kernel or for sending it to another process.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The path passed to [`Self::open`], or `/proc/self/fd/…` for a received file descriptor.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `work` in the namespace. A new thread enters the namespace and ends afterwards, so no thread of the
    /// caller (in particular no async worker) is left in the wrong namespace.
    ///
    /// A panic in `work` is propagated to the caller.
    pub fn run<T, F>(&self, work: F) -> Result<T, Error>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        let inside = || {
            setns(&self.fd, CloneFlags::CLONE_NEWNET).map_err(|errno| Error::Netns {
                doing: "enter",
                path: self.path.clone(),
                errno,
            })?;
            Ok(work())
        };
        std::thread::scope(|scope| match scope.spawn(inside).join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }
}

#[expect(unsafe_code, reason = "an ioctl without a nix wrapper")]
fn nstype(fd: &OwnedFd) -> Result<i32, Errno> {
    // SAFETY: the descriptor is open and on nsfs (checked by the caller); the ioctl takes no argument.
    unsafe { ns_get_nstype(fd.as_raw_fd()) }
}

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

#[cfg(test)]
mod tests;
