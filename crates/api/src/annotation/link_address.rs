//! Parsing of link-layer addresses and GUIDs.

/// Parses `00:11:…`, `00-11-…` or `0011.2233.…` into bytes. Returns `None` for any other text, and does not check the
/// number of bytes.
pub(super) fn parse_link_address(text: &str) -> Option<Vec<u8>> {
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
