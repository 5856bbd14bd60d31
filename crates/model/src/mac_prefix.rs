//! MAC address prefixes of pods.

use crate::MalformedValue;
use crate::macros::string_conversions;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// The first two bytes of a pod's unicast MAC address, `0a:1b`. The other four are those of its IP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MacPrefix([u8; 2]);

/// The bit of a MAC address's first byte that makes it a multicast address (IEEE 802, 8.2).
const MULTICAST: u8 = 0x01;

impl MacPrefix {
    /// The MAC address for a pod with this IP address: the prefix and the last four bytes of the IP address.
    pub fn address_for(self, address: IpAddr) -> [u8; 6] {
        let last = match address {
            IpAddr::V4(address) => address.octets(),
            IpAddr::V6(address) => {
                let [.., a, b, c, d] = address.octets();
                [a, b, c, d]
            }
        };
        [self.0[0], self.0[1], last[0], last[1], last[2], last[3]]
    }
}

impl fmt::Display for MacPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x}:{:02x}", self.0[0], self.0[1])
    }
}

impl FromStr for MacPrefix {
    type Err = MalformedValue;

    fn from_str(text: &str) -> Result<Self, MalformedValue> {
        let byte = |part: &str| {
            let is_byte = part.len() == 2 && part.bytes().all(|digit| digit.is_ascii_hexdigit());
            is_byte.then(|| u8::from_str_radix(part, 16).ok()).flatten()
        };
        let bytes = text.split_once(':').and_then(|(first, second)| Some([byte(first)?, byte(second)?]));
        let unicast = bytes.filter(|bytes| bytes[0] & MULTICAST == 0);
        unicast.map(Self).ok_or_else(|| MalformedValue::MacPrefix(text.to_owned()))
    }
}

string_conversions!(MacPrefix);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_the_prefix_and_the_last_bytes_of_the_ip_address() {
        let prefix: MacPrefix = "0A:1b".parse().unwrap();
        assert_eq!(prefix.to_string(), "0a:1b");
        assert_eq!(prefix.address_for([10, 78, 1, 9].into()), [0x0a, 0x1b, 10, 78, 1, 9]);
        assert_eq!(prefix.address_for("fd00::1:203".parse().unwrap()), [0x0a, 0x1b, 0, 1, 2, 3]);
    }

    #[test]
    fn only_two_unicast_bytes_are_accepted() {
        for text in ["", "0a", "0a:1", "0a:1b:2c", "0a-1b", "+a:1b", "01:00", "ff:ff", "zz:00", "é:00"] {
            assert_eq!(text.parse::<MacPrefix>(), Err(MalformedValue::MacPrefix(text.to_owned())));
        }
        assert!(serde_json::from_str::<MacPrefix>("\"01:00\"").is_err());
    }
}
