//! Address families, and IP spaces: the scopes in which addresses are unique.

use ipnet::IpNet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, OnceLock};

const DEFAULT: &str = "default";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IpFamily {
    V4,
    V6,
}

impl IpFamily {
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// Returns the number of bits in an address, which is also the prefix length of a single address.
    pub(crate) fn bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }

    /// Converts an integer from [`ip_to_number`] back to an address. The family must be the same.
    pub(crate) fn address(self, number: u128) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(Ipv4Addr::from(number as u32)),
            Self::V6 => IpAddr::V6(Ipv6Addr::from(number)),
        }
    }
}

impl fmt::Display for IpFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// Converts an address to an integer, so that ranges of both families are integer intervals.
pub(crate) fn ip_to_number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(u32::from(v4)),
        IpAddr::V6(v6) => u128::from(v6),
    }
}

/// A set of addresses in which each address has at most one owner.
///
/// Written `default`, `network/<name>` or `pool/<subnet>`. The text includes the kind, so a network named `default`
/// is a different space than the default one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IpSpace(Arc<str>);

impl IpSpace {
    /// Returns the default space. Overlapping pools in it never assign the same address.
    pub fn default_space() -> Self {
        static SHARED: OnceLock<Arc<str>> = OnceLock::new();
        Self(SHARED.get_or_init(|| DEFAULT.into()).clone())
    }

    /// Returns the space of a named network (`network_name`).
    pub fn network(name: &str) -> Self {
        Self(format!("network/{name}").into())
    }

    /// Returns the space of a single subnet (`enable_overlapping_ranges: false`).
    pub fn pool(subnet: IpNet) -> Self {
        Self(format!("pool/{}", subnet.trunc()).into())
    }

    /// Returns the text form, as stored in a block.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Creates a space from its text form. Any text is accepted.
    pub fn from_text(text: &str) -> Self {
        // Nearly all blocks are in the default space, so they share one copy of its text.
        if text == DEFAULT { Self::default_space() } else { Self(text.into()) }
    }

    /// Returns the prefix of the object names of this space. It is readable if possible, otherwise a hash.
    ///
    /// Slugs are unique: `pool-` and `x-` are reserved for generated forms, and a network name with such a prefix is
    /// hashed.
    pub fn slug(&self) -> String {
        if &*self.0 == DEFAULT {
            return DEFAULT.into();
        }
        if let Some(name) = self.0.strip_prefix("network/")
            && name != DEFAULT
            && !name.starts_with("pool-")
            && !name.starts_with("x-")
            && is_subdomain(name)
        {
            return name.into();
        }
        if let Some(Ok(subnet)) = self.0.strip_prefix("pool/").map(str::parse::<IpNet>) {
            return format!("pool-{}-{}", address_slug(subnet.addr()), subnet.prefix_len());
        }
        format!("x-{:032x}", fnv1a(self.0.as_bytes()))
    }
}

impl fmt::Display for IpSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the suffix of a block's object name for its first address.
///
/// IPv6 addresses are written in full because the compressed form is ambiguous: network `a-1` with `2::` and network
/// `a` with `1:2::` would get the same name.
pub(crate) fn address_slug(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(_) => {
            let number = ip_to_number(address);
            let group = |i: u32| format!("{:04x}", (number >> (16 * (7 - i))) & 0xffff);
            (0..8).map(group).collect::<Vec<_>>().join("-")
        }
    }
}

/// Whether the text is a DNS-1123 subdomain short enough to append an address within 253 characters.
fn is_subdomain(text: &str) -> bool {
    let label = |label: &str| {
        let bytes = label.as_bytes();
        let alphanumeric = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        bytes.iter().all(|b| alphanumeric(b) || *b == b'-')
            && bytes.first().is_some_and(alphanumeric)
            && bytes.last().is_some_and(alphanumeric)
    };
    text.len() <= 200 && text.split('.').all(label)
}

/// FNV-1a with 128 bits. The hash is part of object names, so it must be stable across releases. The hash of
/// the standard library is not stable.
fn fnv1a(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0x6c62272e07bb014262b821756295c58d, |hash, byte| {
        (hash ^ u128::from(*byte)).wrapping_mul(0x0000000001000000000000000000013b)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_are_unique_and_readable_if_possible() {
        let slug = |s: IpSpace| s.slug();
        assert_eq!(slug(IpSpace::default_space()), "default");
        assert_eq!(slug(IpSpace::network("fabric-a")), "fabric-a");
        assert_eq!(slug(IpSpace::pool("10.1.2.3/24".parse().unwrap())), "pool-10.1.2.0-24");
        assert_eq!(
            slug(IpSpace::pool("2001:db8::/64".parse().unwrap())),
            "pool-2001-0db8-0000-0000-0000-0000-0000-0000-64"
        );
        for odd in ["default", "Fabric", "a_b", "-a", "a.", "pool-10.1.2.0-24", "x-1", "", &"n".repeat(201)] {
            let slug = slug(IpSpace::network(odd));
            assert!(slug.starts_with("x-") && slug.len() == 34, "{odd}: {slug}");
        }
        assert_ne!(slug(IpSpace::network("Fabric")), slug(IpSpace::network("FABRIC")));
    }

    #[test]
    fn the_hash_is_fnv1a_128() {
        // Test vectors of the FNV reference: the empty string and "a".
        assert_eq!(fnv1a(b""), 0x6c62272e07bb014262b821756295c58d);
        assert_eq!(fnv1a(b"a"), 0xd228cb696f1a8caf78912b704e4a8964);
    }
}
