//! Driver statistics of an interface, as `ethtool -S` shows them.
//!
//! The driver defines the names, so two requests are needed: one for the number and the names, one for the values.
//! A driver may add statistics between them (mlx5 has some for each channel), and the kernel then writes more
//! values than it announced (ethtool_get_stats of net/ethtool/ioctl.c). Therefore the buffers have space for the
//! maximum number; unused pages are never mapped.

use crate::{Error, Netns};
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use std::os::fd::{AsRawFd, OwnedFd};

/// SIOCETHTOOL of linux/sockios.h, and ETHTOOL_* commands of linux/ethtool.h.
const SIOCETHTOOL: u32 = 0x8946;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSTATS: u32 = 0x1d;
/// The string set that names the statistics.
const ETH_SS_STATS: u32 = 1;
const ETH_GSTRING_LEN: usize = 32;
/// Maximum number of statistics that are read. No driver has as many.
const MAX_STATISTICS: usize = 1 << 16;

nix::ioctl_readwrite_bad!(
    /// SIOCETHTOOL: the data pointer of the request points to a struct that begins with the command.
    siocethtool, SIOCETHTOOL, libc::ifreq
);

/// Returns names and values of the statistics of an interface, in the driver's order. `None` as namespace means
/// that of the calling thread. The list is empty if the driver has no statistics.
pub fn statistics(interface: &str, netns: Option<&Netns>) -> Result<Vec<(String, u64)>, Error> {
    match netns {
        None => statistics_here(interface),
        Some(netns) => netns.run(|| statistics_here(interface))?,
    }
}

fn statistics_here(interface: &str) -> Result<Vec<(String, u64)>, Error> {
    match read_statistics(interface) {
        Ok(statistics) => Ok(statistics),
        Err(Errno::EOPNOTSUPP) => Ok(Vec::new()),
        Err(errno) => Err(Error::InterfaceRequest {
            doing: "read the statistics of".to_owned(),
            interface: interface.to_owned(),
            errno,
            message: None,
        }),
    }
}

fn read_statistics(interface: &str) -> Result<Vec<(String, u64)>, Errno> {
    let fd = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    // The buffer is a struct ethtool_gstrings with the fields cmd, string_set, len and strings.
    let mut names = vec![0_u32; 3 + MAX_STATISTICS * ETH_GSTRING_LEN / 4];
    names[0] = ETHTOOL_GSTRINGS;
    names[1] = ETH_SS_STATS;
    ethtool_request(&fd, interface, &mut names)?;
    let count = usize::try_from(names[2]).unwrap_or(MAX_STATISTICS).min(MAX_STATISTICS);
    // The buffer is a struct ethtool_stats with the fields cmd, n_stats and values.
    let mut values = vec![0_u64; 1 + MAX_STATISTICS];
    let ([a, b, c, d], [e, f, g, h]) = (ETHTOOL_GSTATS.to_ne_bytes(), names[2].to_ne_bytes());
    values[0] = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
    ethtool_request(&fd, interface, &mut values)?;
    let name = |words: &[u32]| {
        let bytes: Vec<u8> =
            words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let names = names[3..].chunks_exact(ETH_GSTRING_LEN / 4).map(name);
    Ok(names.zip(values[1..].iter().copied()).take(count).collect())
}

#[expect(unsafe_code, reason = "an ioctl without a nix wrapper, with a struct that contains a union")]
fn ethtool_request<T>(fd: &OwnedFd, interface: &str, buffer: &mut [T]) -> Result<(), Errno> {
    // SAFETY: ifreq consists of integers and arrays of integers, for which all zeros is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if interface.is_empty() || interface.len() >= request.ifr_name.len() || interface.contains('\0') {
        return Err(Errno::EINVAL);
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = buffer.as_mut_ptr().cast();
    // SAFETY: the replies to both commands fit into their slices, which consist of integers, have space for
    // MAX_STATISTICS entries and live until the call returns.
    unsafe { siocethtool(fd.as_raw_fd(), &raw mut request) }.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interface_without_statistics_returns_an_empty_list() {
        assert_eq!(statistics("lo", None).unwrap(), []);
        let error = statistics("ferro-none", None).unwrap_err();
        assert_eq!(error.errno(), Some(Errno::ENODEV), "{error:?}");
        assert_eq!(statistics("", None).unwrap_err().errno(), Some(Errno::EINVAL));
        assert!(statistics(&"x".repeat(64), None).is_err());
    }
}
