//! What the driver of an interface counts: ethtool(8), `-S`.
//!
//! The numbers have names that only the driver knows, so there are three questions: how many, what are they called, what
//! are they. Between two of them a driver may get more (mlx5 has some for each channel), and the kernel then writes more
//! than it said (ethtool_get_stats of net/ethtool/ioctl.c). Therefore there is room for any number, mapped as it is used.

use crate::{Error, Netns};
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use std::os::fd::{AsRawFd, OwnedFd};

/// SIOCETHTOOL of linux/sockios.h, and what it is asked (linux/ethtool.h).
const SIOCETHTOOL: u32 = 0x8946;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSTATS: u32 = 0x1d;
/// ETH_SS_STATS: the set of strings that name the statistics.
const ETH_SS_STATS: u32 = 1;
/// ETH_GSTRING_LEN.
const ETH_GSTRING_LEN: usize = 32;
/// More than any driver has.
const MAX_STATISTICS: usize = 1 << 16;

nix::ioctl_readwrite_bad!(
    /// SIOCETHTOOL: the request's data points to a struct that begins with the question.
    ask_ethtool, SIOCETHTOOL, libc::ifreq
);

/// The statistics of an interface in a namespace (here when none is given), in the driver's order. A driver without any
/// has none.
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
    let door = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    // struct ethtool_gstrings: cmd, string_set, len, then the strings.
    let mut names = vec![0_u32; 3 + MAX_STATISTICS * ETH_GSTRING_LEN / 4];
    names[0] = ETHTOOL_GSTRINGS;
    names[1] = ETH_SS_STATS;
    ethtool_request(&door, interface, &mut names)?;
    let count = usize::try_from(names[2]).unwrap_or(MAX_STATISTICS).min(MAX_STATISTICS);
    // struct ethtool_stats: cmd, n_stats, then the numbers.
    let mut values = vec![0_u64; 1 + MAX_STATISTICS];
    let ([a, b, c, d], [e, f, g, h]) = (ETHTOOL_GSTATS.to_ne_bytes(), names[2].to_ne_bytes());
    values[0] = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
    ethtool_request(&door, interface, &mut values)?;
    let name = |words: &[u32]| {
        let bytes: Vec<u8> =
            words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let names = names[3..].chunks_exact(ETH_GSTRING_LEN / 4).map(name);
    Ok(names.zip(values[1..].iter().copied()).take(count).collect())
}

#[expect(unsafe_code, reason = "an ioctl that nix has no function for, with a struct that has a union")]
fn ethtool_request<T>(door: &OwnedFd, interface: &str, question: &mut [T]) -> Result<(), Errno> {
    // SAFETY: ifreq is integers and arrays of them, for which all zeros is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if interface.is_empty() || interface.len() >= request.ifr_name.len() || interface.contains('\0') {
        return Err(Errno::EINVAL);
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = question.as_mut_ptr().cast();
    // SAFETY: both questions asked here are answered within their slices, which are of integers, have room for MOST
    // answers and live until the call returns.
    unsafe { ask_ethtool(door.as_raw_fd(), &raw mut request) }.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_without_statistics_has_none_and_none_is_refused() {
        assert_eq!(statistics("lo", None).unwrap(), []);
        let error = statistics("ferro-none", None).unwrap_err();
        assert_eq!(error.errno(), Some(Errno::ENODEV), "{error:?}");
        assert_eq!(statistics("", None).unwrap_err().errno(), Some(Errno::EINVAL));
        assert!(statistics(&"x".repeat(64), None).is_err());
    }
}
