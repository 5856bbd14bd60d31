//! PCI addresses: device identifiers that do not change when an interface is renamed, moved or rebound.

use crate::MalformedValue;
use crate::macros::string_conversions;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A PCI address, written `domain:bus:device.function` in hexadecimal: `0000:86:00.0`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PciAddress {
    /// PCI domain. Usually four digits; host bridges behind VMD have five (`10000:`).
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

impl PciAddress {
    /// Creates an address. Returns `None` unless `device` is 0 to 31 and `function` is 0 to 7.
    pub const fn new(domain: u32, bus: u8, device: u8, function: u8) -> Option<Self> {
        if device < 32 && function < 8 { Some(Self { domain, bus, device, function }) } else { None }
    }

    /// Adds `by` to the routing ID, which is bus, device and function as one number. PCI Express SR-IOV computes
    /// the addresses of virtual functions in this way (VF offset and stride). Returns `None` beyond the last bus.
    pub const fn offset_by(self, by: u16) -> Option<Self> {
        let id = (self.bus as u32) << 8 | (self.device as u32) << 3 | self.function as u32;
        let id = id + by as u32;
        if id > 0xffff {
            return None;
        }
        Self::new(self.domain, (id >> 8) as u8, (id >> 3 & 0x1f) as u8, (id & 7) as u8)
    }

    /// PCI domain (segment), 0 on most hosts.
    pub const fn domain(self) -> u32 {
        self.domain
    }

    /// Bus number, 0 to 255.
    pub const fn bus(self) -> u8 {
        self.bus
    }

    /// Device number, 0 to 31.
    pub const fn device(self) -> u8 {
        self.device
    }

    /// Function number, 0 to 7.
    pub const fn function(self) -> u8 {
        self.function
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.device, self.function)
    }
}

impl fmt::Debug for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PciAddress({self})")
    }
}

impl FromStr for PciAddress {
    type Err = MalformedValue;

    fn from_str(text: &str) -> Result<Self, MalformedValue> {
        parse(text).ok_or_else(|| MalformedValue::PciAddress(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<PciAddress> {
    let (domain, rest) = text.split_once(':')?;
    let (bus, rest) = rest.split_once(':')?;
    let (device, function) = rest.split_once('.')?;
    let address = PciAddress {
        domain: hex(domain, 4..=8)?,
        bus: u8::try_from(hex(bus, 2..=2)?).ok()?,
        device: u8::try_from(hex(device, 2..=2)?).ok()?,
        function: u8::try_from(hex(function, 1..=1)?).ok()?,
    };
    (address.device < 32 && address.function < 8).then_some(address)
}

fn hex(digits: &str, length: std::ops::RangeInclusive<usize>) -> Option<u32> {
    // from_str_radix alone would accept a sign.
    let plain = length.contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if plain { u32::from_str_radix(digits, 16).ok() } else { None }
}

string_conversions!(PciAddress);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_displays() {
        let address: PciAddress = "0000:86:1f.7".parse().unwrap();
        assert_eq!(
            (address.domain(), address.bus(), address.device(), address.function()),
            (0, 0x86, 0x1f, 7)
        );
        assert_eq!(address.to_string(), "0000:86:1f.7");
        let behind_vmd: PciAddress = "10000:E1:00.0".parse().unwrap();
        assert_eq!((behind_vmd.domain(), behind_vmd.to_string()), (0x10000, "10000:e1:00.0".to_owned()));
    }

    #[test]
    fn malformed_addresses_are_rejected() {
        for text in [
            "",
            "86:00.0",
            "0000:86:00",
            "0000:86:20.0",
            "0000:86:00.8",
            "0000:860:00.0",
            "0000:86:0.0",
            "+000:86:00.0",
            "mlx5_core.sf.6",
        ] {
            assert_eq!(text.parse::<PciAddress>(), Err(MalformedValue::PciAddress(text.to_owned())));
        }
    }

    #[test]
    fn vf_offsets_carry_into_device_and_bus() {
        let physical: PciAddress = "0000:86:00.0".parse().unwrap();
        let at = |by| physical.offset_by(by).map(|address| address.to_string());
        assert_eq!(at(2).as_deref(), Some("0000:86:00.2"));
        assert_eq!(at(8).as_deref(), Some("0000:86:01.0"));
        assert_eq!(at(0x100).as_deref(), Some("0000:87:00.0"));
        assert_eq!(at(0x79ff).as_deref(), Some("0000:ff:1f.7"));
        assert_eq!(at(0x7a00), None);
        assert_eq!(PciAddress::new(0, 0x86, 0, 0), Some(physical));
        assert_eq!((PciAddress::new(0, 0, 32, 0), PciAddress::new(0, 0, 0, 8)), (None, None));
    }

    #[test]
    fn vf_offsets_are_added_to_the_whole_routing_id() {
        let at = |address: &str, by| {
            let physical: PciAddress = address.parse().unwrap();
            physical.offset_by(by).map(|address| address.to_string())
        };
        assert_eq!(at("0000:3b:02.1", 1).as_deref(), Some("0000:3b:02.2"));
        assert_eq!(at("0000:3b:02.1", 0).as_deref(), Some("0000:3b:02.1"));
        assert_eq!(at("0000:3b:1f.7", 1).as_deref(), Some("0000:3c:00.0"));
        assert_eq!(at("0000:ff:1f.7", 1), None);
    }

    #[test]
    fn sorts_by_domain_bus_device_and_function() {
        let mut places: Vec<PciAddress> = ["0000:86:00.1", "0000:3b:00.0", "0001:01:00.0", "0000:86:00.0"]
            .map(|a| a.parse().unwrap())
            .into();
        places.sort();
        assert_eq!(
            places.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["0000:3b:00.0", "0000:86:00.0", "0000:86:00.1", "0001:01:00.0"]
        );
    }

    #[test]
    fn json_is_a_string() {
        let address: PciAddress = serde_json::from_str("\"0000:86:00.0\"").unwrap();
        assert_eq!(serde_json::to_string(&address).unwrap(), "\"0000:86:00.0\"");
        assert!(serde_json::from_str::<PciAddress>("\"86:00.0\"").is_err());
    }
}
