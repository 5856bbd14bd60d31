//! Whereabouts range syntax.

use crate::Error;
use crate::ip_space::{IpFamily, ip_to_number};
use ipnet::IpNet;
use std::fmt;
use std::net::IpAddr;

/// A range of addresses in a subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpRange {
    /// Subnet with its host bits set to zero. Every assigned address gets the prefix length of the subnet.
    pub subnet: IpNet,
    /// First assignable address.
    pub first: IpAddr,
    /// Last assignable address.
    pub last: IpAddr,
}

/// A part of an IPAM configuration that has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IpamWarning {
    /// An option that does not exist, as a path below `ipam`.
    UnknownKey(String),
    /// An unusable value, which is ignored as in Whereabouts.
    Ignored {
        /// Field, as a path below `ipam`.
        field: String,
        value: String,
        reason: &'static str,
    },
}

impl fmt::Display for IpamWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKey(key) => write!(f, "unknown option {key} has no effect"),
            Self::Ignored { field, value, reason } => write!(f, "{field} {value} is ignored: {reason}"),
        }
    }
}

impl IpRange {
    /// Parses `<network>/<prefix>` or `<first>-<last>/<prefix>`, narrowed by `start` and `end`.
    ///
    /// Error messages name `field`, such as `ipRanges[0].range`, as the origin of `text`. The first and the
    /// last address of the subnet (network and broadcast address in IPv4) are never assigned. A `start` or
    /// `end` outside the usable addresses has no effect.
    pub fn parse(
        field: &str,
        text: &str,
        start: Option<IpAddr>,
        end: Option<IpAddr>,
        warnings: &mut Vec<IpamWarning>,
    ) -> Result<Self, Error> {
        let invalid = || Error::InvalidRange { field: field.into(), value: text.into() };
        let (subnet, start, end) = match text.split_once('-') {
            Some((low, high)) => {
                let low = parse_lenient_address(low).ok_or_else(invalid)?;
                let high = parse_lenient_subnet(high).ok_or_else(invalid)?;
                if !high.contains(&low) {
                    return Err(Error::StartOutsideSubnet {
                        field: field.into(),
                        subnet: high.trunc(),
                        start: low,
                    });
                }
                (high.trunc(), Some(low), Some(high.addr()))
            }
            None => (parse_lenient_subnet(text).ok_or_else(invalid)?.trunc(), start, end),
        };
        let family = IpFamily::of(subnet.addr());
        // With fewer than two host bits, there is no address between the network and the broadcast address.
        if family.bits() - subnet.prefix_len() < 2 {
            return Err(Error::NoUsableAddress { pool: subnet.to_string() });
        }
        let mut low = ip_to_number(subnet.network()) + 1;
        let mut high = ip_to_number(subnet.broadcast()) - 1;
        let mut ignored = |name: &str, value: IpAddr, why| {
            warnings.push(IpamWarning::Ignored {
                field: format!("{field}_{name}"),
                value: value.to_string(),
                reason: why,
            });
        };
        if let Some(start) = start {
            if IpFamily::of(start) == family && (low..=high).contains(&ip_to_number(start)) {
                low = ip_to_number(start);
            } else if start != subnet.network() {
                ignored("start", start, "it is not a usable address of the range");
            }
        }
        if let Some(end) = end {
            if IpFamily::of(end) != family || ip_to_number(end) > high {
                ignored("end", end, "it is not a usable address of the range");
            } else if ip_to_number(end) < low {
                ignored("end", end, "it lies before the first address");
            } else {
                high = ip_to_number(end);
            }
        }
        Ok(Self { subnet, first: family.address(low), last: family.address(high) })
    }
}

impl fmt::Display for IpRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usable = |bound: u128| IpFamily::of(self.subnet.addr()).address(bound);
        let whole = self.first == usable(ip_to_number(self.subnet.network()) + 1)
            && self.last == usable(ip_to_number(self.subnet.broadcast()) - 1);
        if whole {
            write!(f, "{}", self.subnet)
        } else {
            write!(f, "{}-{}/{}", self.first, self.last, self.subnet.prefix_len())
        }
    }
}

/// A subnet or a single address that is never assigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exclusion(pub IpNet);

impl Exclusion {
    /// Parses a subnet (masking host bits) or a single address.
    pub fn parse(field: &str, text: &str) -> Result<Self, Error> {
        text.parse::<IpNet>()
            .map(|subnet| Self(subnet.trunc()))
            .or_else(|_| text.parse::<IpAddr>().map(|address| Self(IpNet::from(address))))
            .map_err(|_| Error::InvalidExclude { field: field.into(), value: text.into() })
    }
}

/// Parses an address. Leading zeros are allowed in IPv4; the octets are decimal, never octal.
pub(crate) fn parse_lenient_address(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse::<IpAddr>().ok().map(|address| address.to_canonical());
    }
    let mut octets = [0u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let digits = parts.next()?;
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        *octet = match digits.trim_start_matches('0') {
            "" => 0,
            significant => significant.parse().ok()?,
        };
    }
    parts.next().is_none().then(|| IpAddr::from(octets))
}

/// Parses an address with a prefix length and keeps the host bits.
pub(crate) fn parse_lenient_subnet(text: &str) -> Option<IpNet> {
    let (address, prefix) = text.split_once('/')?;
    if prefix.is_empty() || !prefix.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let address = parse_lenient_address(address)?;
    IpNet::new(address, prefix.parse().ok()?).ok()
}

#[cfg(test)]
#[path = "range/tests.rs"]
mod tests;
