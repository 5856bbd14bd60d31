//! A network namespace, held open.

use crate::Error;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sched::{CloneFlags, setns};
use nix::sys::stat::{Mode, fstat};
use nix::sys::statfs::{NSFS_MAGIC, fstatfs};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

nix::ioctl_none!(
    /// NS_GET_NSTYPE of linux/nsfs.h: which kind of namespace a descriptor is.
    ns_get_nstype, 0xb7, 0x3
);

/// A network namespace. It lives at least as long as this value.
#[derive(Debug)]
pub struct Netns {
    fd: OwnedFd,
    path: PathBuf,
    id: NetnsId,
}

/// Which network namespace, independent of the path it is reached by. Valid within one boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NetnsId {
    /// The device number of nsfs.
    pub dev: u64,
    /// The namespace's inode on it.
    pub inode: u64,
}

impl fmt::Display for NetnsId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "net:[{}]", self.inode)
    }
}

impl Netns {
    /// The namespace of the calling thread.
    pub fn current() -> Result<Self, Error> {
        // Not /proc/self: that is the main thread, which may be somewhere else.
        Self::open("/proc/thread-self/ns/net")
    }

    /// The namespace at `path`. Nothing there (or an empty path) is [`Error::NoNetns`]; anything else that is
    /// not a network namespace is [`Error::NotNetns`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        // Non-blocking, for somebody may have put a pipe there.
        match open(path, OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK, Mode::empty()) {
            Ok(fd) => Self::from_checked_fd(fd, path.to_owned()),
            Err(Errno::ENOENT | Errno::ENOTDIR) => Err(Error::NoNetns { path: path.to_owned() }),
            // What a socket answers.
            Err(Errno::ENXIO) => Err(Error::NotNetns { path: path.to_owned() }),
            Err(errno) => Err(Error::Netns { doing: "open", path: path.to_owned(), errno }),
        }
    }

    /// The namespace of a descriptor that somebody handed over.
    pub fn from_fd(fd: OwnedFd) -> Result<Self, Error> {
        let path = PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()));
        Self::from_checked_fd(fd, path)
    }

    /// The same namespace, held once more.
    pub fn try_clone(&self) -> Result<Self, Error> {
        match self.fd.try_clone() {
            Ok(fd) => Ok(Self { fd, path: self.path.clone(), id: self.id }),
            Err(source) => Err(Error::File { doing: "hold", path: self.path.clone(), source }),
        }
    }

    fn from_checked_fd(fd: OwnedFd, path: PathBuf) -> Result<Self, Error> {
        let failed = |errno| Error::Netns { doing: "look at", path: path.clone(), errno };
        if fstatfs(&fd).map_err(failed)?.filesystem_type() != NSFS_MAGIC {
            return Err(Error::NotNetns { path });
        }
        if nstype(&fd).map_err(failed)? != CloneFlags::CLONE_NEWNET.bits() {
            return Err(Error::NotNetns { path });
        }
        let stat = fstat(&fd).map_err(failed)?;
        Ok(Self { fd, path, id: NetnsId { dev: stat.st_dev, inode: stat.st_ino } })
    }

    /// Which namespace it is.
    pub fn id(&self) -> NetnsId {
        self.id
    }

    /// The descriptor, to be handed to the kernel or to another process.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `work` inside the namespace: on a thread of its own, which ends afterwards, so that no thread of
    /// the caller's (an async worker least of all) is ever left in the wrong namespace.
    ///
    /// A panic in `work` goes on in the caller.
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

#[expect(unsafe_code, reason = "an ioctl that nix has no function for")]
fn nstype(fd: &OwnedFd) -> Result<i32, Errno> {
    // SAFETY: the descriptor is open and on nsfs (checked by the caller); the request takes no argument.
    unsafe { ns_get_nstype(fd.as_raw_fd()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_one_has_an_identity() {
        let netns = Netns::current().unwrap();
        assert_eq!(netns.id(), Netns::open("/proc/thread-self/ns/net").unwrap().id());
        let shown = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
        assert_eq!(Path::new(&netns.id().to_string()), shown);
    }

    #[test]
    fn nothing_there_is_told_from_something_else() {
        for path in ["", "/nonexistent/netns", "/proc/thread-self/ns/net/below"] {
            assert!(matches!(Netns::open(path), Err(Error::NoNetns { .. })), "{path:?}");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        let others = [file.path(), Path::new("/"), Path::new("/proc/thread-self/ns/mnt")];
        for path in others {
            assert!(matches!(Netns::open(path), Err(Error::NotNetns { .. })), "{}", path.display());
        }
    }

    #[test]
    fn a_descriptor_is_checked_too() {
        let good = std::fs::File::open("/proc/thread-self/ns/net").unwrap();
        assert_eq!(Netns::from_fd(good.into()).unwrap().id(), Netns::current().unwrap().id());
        let bad = tempfile::tempfile().unwrap();
        assert!(matches!(Netns::from_fd(bad.into()), Err(Error::NotNetns { .. })));
    }

    #[test]
    fn identity_survives_json() {
        let id = Netns::current().unwrap().id();
        let text = serde_json::to_string(&id).unwrap();
        assert_eq!(serde_json::from_str::<NetnsId>(&text).unwrap(), id);
    }
}
