//! Interfaces that a program feeds: tun(4).
//!
//! Ferroband needs one only to have an interface that says `link/infiniband` on a kernel without InfiniBand.

use crate::Error;
use nix::errno::Errno;
use nix::libc;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;

/// Not under a root: it is a door to the running kernel, like a socket.
const DEVICE: &str = "/dev/net/tun";

nix::ioctl_write_ptr_bad!(
    /// TUNSETIFF of linux/if_tun.h.
    tun_set_iff, nix::request_code_write!(b'T', 202, size_of::<libc::c_int>()), libc::ifreq
);
nix::ioctl_write_int_bad!(
    /// TUNSETPERSIST of linux/if_tun.h.
    tun_set_persist, nix::request_code_write!(b'T', 203, size_of::<libc::c_int>())
);
nix::ioctl_write_int_bad!(
    /// TUNSETLINK of linux/if_tun.h.
    tun_set_link, nix::request_code_write!(b'T', 205, size_of::<libc::c_int>())
);

/// Makes an interface in this thread's network namespace that outlives the program, and says that its link is
/// of type `link_type` (ARPHRD_* of linux/if_arp.h). Nothing is left when any step fails.
///
/// The kernel gives it no hardware address for types that tun does not know (`tun_get_addr_len` of
/// drivers/net/tun.c); InfiniBand is one of these.
pub fn create(name: &str, link_type: u16) -> Result<(), Error> {
    let tun = OpenOptions::new().read(true).write(true).open(DEVICE).map_err(|source| Error::File {
        doing: "open",
        path: DEVICE.into(),
        source,
    })?;
    let failed = |doing: &str, errno| Error::InterfaceRequest {
        doing: doing.to_owned(),
        interface: name.to_owned(),
        errno,
        message: None,
    };
    attach(&tun, name).map_err(|errno| failed("create", errno))?;
    set_link(&tun, link_type).map_err(|errno| failed("set the link type of", errno))?;
    // Last: until then the interface goes with the descriptor.
    persist(&tun).map_err(|errno| failed("keep", errno))
}

#[expect(unsafe_code, reason = "an ioctl that nix has no function for, with a struct that has a union")]
fn attach(tun: &File, name: &str) -> Result<(), Errno> {
    // SAFETY: ifreq is integers and arrays of them, for which all zeros is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() || name.contains(['\0', '%']) {
        return Err(Errno::EINVAL);
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    // IFF_TUN_EXCL: an interface of that name must not be taken over.
    let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_TUN_EXCL;
    request.ifr_ifru.ifru_flags = (flags & 0xffff) as i16;
    // SAFETY: the descriptor is open, and the kernel reads and writes one ifreq there.
    unsafe { tun_set_iff(tun.as_raw_fd(), &raw const request) }.map(drop)
}

#[expect(unsafe_code, reason = "an ioctl that nix has no function for")]
fn set_link(tun: &File, link_type: u16) -> Result<(), Errno> {
    // SAFETY: the descriptor is open; the argument is a plain number.
    unsafe { tun_set_link(tun.as_raw_fd(), link_type.into()) }.map(drop)
}

#[expect(unsafe_code, reason = "an ioctl that nix has no function for")]
fn persist(tun: &File) -> Result<(), Errno> {
    // SAFETY: the descriptor is open; the argument is a plain number.
    unsafe { tun_set_persist(tun.as_raw_fd(), 1) }.map(drop)
}
