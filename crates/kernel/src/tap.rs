//! TUN/TAP interfaces: tun(4).
//!
//! Used only to create an interface of type `link/infiniband` on a kernel without InfiniBand.

use crate::Error;
use nix::errno::Errno;
use nix::libc;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;

/// This path is not below a `Root`, because the device is an interface to the running kernel, like a socket.
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

/// Creates a persistent interface in the network namespace of the calling thread with link type `link_type`
/// (ARPHRD_* of linux/if_arp.h). If a step fails, no interface remains.
///
/// The kernel assigns no hardware address for link types unknown to tun, such as InfiniBand (`tun_get_addr_len` of
/// drivers/net/tun.c).
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
    // This is the last step: until then the kernel removes the interface when the descriptor is closed.
    persist(&tun).map_err(|errno| failed("set the persistent flag of", errno))
}

#[expect(unsafe_code, reason = "an ioctl without a nix wrapper, with a struct that contains a union")]
fn attach(tun: &File, name: &str) -> Result<(), Errno> {
    // SAFETY: ifreq consists of integers and arrays of integers, for which all zeros is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() || name.contains(['\0', '%']) {
        return Err(Errno::EINVAL);
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    // IFF_TUN_EXCL: fail if an interface of that name exists.
    let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_TUN_EXCL;
    request.ifr_ifru.ifru_flags = (flags & 0xffff) as i16;
    // SAFETY: the descriptor is open, and the kernel reads and writes one ifreq.
    unsafe { tun_set_iff(tun.as_raw_fd(), &raw const request) }.map(drop)
}

#[expect(unsafe_code, reason = "an ioctl without a nix wrapper")]
fn set_link(tun: &File, link_type: u16) -> Result<(), Errno> {
    // SAFETY: the descriptor is open; the argument is an integer.
    unsafe { tun_set_link(tun.as_raw_fd(), link_type.into()) }.map(drop)
}

#[expect(unsafe_code, reason = "an ioctl without a nix wrapper")]
fn persist(tun: &File) -> Result<(), Errno> {
    // SAFETY: the descriptor is open; the argument is an integer.
    unsafe { tun_set_persist(tun.as_raw_fd(), 1) }.map(drop)
}
