//! Spiderpool's lists of addresses and ranges (`A` or `A-B`).

use crate::ip_space::{IpFamily, ip_to_number};
use crate::pool::merge;
use std::net::IpAddr;

/// Parses a list of addresses and ranges of `family` into merged, sorted ranges.
pub fn parse_ips(list: &[String], family: IpFamily) -> Result<Vec<(IpAddr, IpAddr)>, String> {
    let read = list.iter().map(|text| parse_range(text, family)).collect::<Result<Vec<_>, _>>()?;
    let merged = merge(read.into_iter().map(|(low, high)| (ip_to_number(low), ip_to_number(high))).collect());
    Ok(merged.into_iter().map(|(low, high)| (family.address(low), family.address(high))).collect())
}

fn parse_range(text: &str, family: IpFamily) -> Result<(IpAddr, IpAddr), String> {
    let address = |part: &str| {
        let address = part
            .parse::<IpAddr>()
            .map_err(|_| format!("{text:?} is neither an address nor a range A-B (no spaces, no subnets)"))?;
        match IpFamily::of(address) == family {
            true => Ok(address),
            false => Err(format!("{text:?} is not an {family} address or range")),
        }
    };
    let (low, high) = match text.split_once('-') {
        Some((low, high)) => (address(low)?, address(high)?),
        None => (address(text)?, address(text)?),
    };
    if ip_to_number(low) > ip_to_number(high) {
        return Err(format!("range {text:?} ends before it starts"));
    }
    Ok((low, high))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(list: &[&str]) -> Result<Vec<String>, String> {
        let list: Vec<_> = list.iter().map(|text| (*text).to_owned()).collect();
        let write = |(low, high): (IpAddr, IpAddr)| match low == high {
            true => low.to_string(),
            false => format!("{low}-{high}"),
        };
        Ok(parse_ips(&list, IpFamily::V4)?.into_iter().map(write).collect())
    }

    // Case: ipam S04
    #[test]
    fn reversed_ranges_spaces_and_subnets_are_rejected() {
        for malformed in [
            "172.91.0.120-172.91.0.100",
            "172.91.0.1 - 172.91.0.2",
            "172.91.0.0/24",
            "fd00::1",
            "",
            "1.2.3",
            "-",
        ] {
            let error = read(&[malformed]).unwrap_err();
            assert!(error.contains(&format!("{malformed:?}")), "{error}");
        }
        assert!(read(&["172.91.0.120-172.91.0.100"]).unwrap_err().contains("ends before"));
    }

    // Case: ipam S05
    #[test]
    fn overlapping_ranges_are_merged() {
        let merged = read(&["10.0.0.100-10.0.0.105", "10.0.0.103-10.0.0.110", "10.0.0.5"]).unwrap();
        assert_eq!(merged, ["10.0.0.5", "10.0.0.100-10.0.0.110"]);
    }
}
