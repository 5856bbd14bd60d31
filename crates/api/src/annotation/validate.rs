//! Validation of one network selection.

use super::NetworkSelection;
use crate::Error;
use ipnet::IpNet;
use std::net::IpAddr;

/// Validates one selection, whether it came from the comma list or from JSON.
pub(super) fn validate(
    annotation: &'static str,
    position: usize,
    selection: &NetworkSelection,
) -> Result<(), Error> {
    let network = match selection.namespace.as_str() {
        "" => selection.name.clone(),
        _ => selection.display_name(),
    };
    let wrong = |field, problem: String| Err(selection_error(annotation, position, &network, field, problem));
    if !selection.name.split('.').all(is_label) || selection.name.len() > 253 {
        return wrong("name", format!("{:?} is not a DNS-1123 subdomain", selection.name));
    }
    if !selection.namespace.is_empty() && !is_label(&selection.namespace) {
        return wrong("namespace", format!("{:?} is not a DNS-1123 label", selection.namespace));
    }
    if let Some(interface) = &selection.interface
        && !is_interface_name(interface)
    {
        let rule = "is not an interface name: 1 to 15 characters without blank, / and :";
        return wrong("interface", format!("{interface:?} {rule}"));
    }
    for ip in &selection.ips {
        if ip.parse::<IpNet>().is_err() && ip.parse::<IpAddr>().is_err() {
            return wrong("ips", format!("{ip:?} is neither an IP address nor a CIDR"));
        }
    }
    let length = |text: &String| parse_link_address(text).map(|bytes| bytes.len());
    if let Some(mac) = &selection.mac
        && !matches!(length(mac), Some(6 | 8 | 20))
    {
        return wrong("mac", format!("{mac:?} is not a link-layer address of 6, 8 or 20 bytes"));
    }
    if let Some(guid) = &selection.infiniband_guid
        && length(guid) != Some(8)
    {
        return wrong("infiniband-guid", format!("{guid:?} is not a GUID of 8 bytes"));
    }
    for mapping in &selection.port_mappings {
        for port in [mapping.host_port, mapping.container_port] {
            if !(1..=65535).contains(&port) {
                return wrong("portMappings", format!("{port} is not a port from 1 to 65535"));
            }
        }
        let known =
            |protocol: &String| ["tcp", "udp", "sctp"].iter().any(|p| protocol.eq_ignore_ascii_case(p));
        if let Some(protocol) = mapping.protocol.as_ref().filter(|p| !p.is_empty() && !known(p)) {
            return wrong("portMappings", format!("{protocol:?} is not TCP, UDP or SCTP"));
        }
    }
    if selection.ipam_claim_reference.is_some() && !selection.ips.is_empty() {
        return wrong("ipam-claim-reference", "cannot be combined with ips".into());
    }
    Ok(())
}

/// Builds [`Error::Selection`]. `position` counts from 0; the message counts from 1.
pub(super) fn selection_error(
    annotation: &'static str,
    position: usize,
    network: &str,
    field: &'static str,
    problem: String,
) -> Error {
    Error::Selection { annotation, position: position + 1, network: network.into(), field, problem }
}

/// Whether `text` is a DNS-1123 label.
fn is_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    text.len() <= 63
        && bytes.iter().all(|b| inner(*b) || *b == b'-')
        && bytes.first().is_some_and(|b| inner(*b))
        && bytes.last().is_some_and(|b| inner(*b))
}

/// Whether the kernel accepts `name` as an interface name.
fn is_interface_name(name: &str) -> bool {
    (1..=15).contains(&name.len())
        && name != "."
        && name != ".."
        && !name.contains(|c: char| c == '/' || c == ':' || c.is_whitespace())
}

/// Parses `00:11:…`, `00-11-…` or `0011.2233.…` into bytes. Returns `None` for any other text, and does not check the
/// number of bytes.
fn parse_link_address(text: &str) -> Option<Vec<u8>> {
    let (separator, width) = match text {
        _ if text.contains(':') => (':', 2),
        _ if text.contains('-') => ('-', 2),
        _ => ('.', 4),
    };
    let mut bytes = Vec::new();
    for group in text.split(separator) {
        if group.len() != width || !group.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let number = u16::from_str_radix(group, 16).ok()?;
        if width == 4 {
            bytes.extend(number.to_be_bytes());
        } else {
            bytes.push(number as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::parse_link_address;

    #[test]
    fn all_three_formats_are_parsed() {
        assert_eq!(parse_link_address("02:00:00:00:00:0a"), Some(vec![2, 0, 0, 0, 0, 10]));
        assert_eq!(parse_link_address("c2-11-22-33-44-55-66-77").map(|b| b.len()), Some(8));
        assert_eq!(parse_link_address("0200.0000.000a"), Some(vec![2, 0, 0, 0, 0, 10]));
        for wrong in ["", "02:0", "zz:00:00:00:00:00", "02:00:00-00", "+2:00:00:00:00:00", "020000000000"] {
            assert_eq!(parse_link_address(wrong), None, "{wrong}");
        }
    }
}
