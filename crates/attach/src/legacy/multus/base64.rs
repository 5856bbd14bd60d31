//! Base64 as Go's encoder writes byte slices into JSON (RFC 4648, section 4).

/// Decode `text`; `None` if it is not base64.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=').as_bytes();
    if text.len() % 4 == 1 {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    for group in text.chunks(4) {
        let mut bits = 0_u32;
        for byte in group {
            bits = bits << 6 | value(*byte)?;
        }
        let missing = 4 - group.len();
        let [_, whole @ ..] = (bits << (6 * missing)).to_be_bytes();
        bytes.extend(whole.iter().take(3 - missing));
    }
    Some(bytes)
}

fn value(byte: u8) -> Option<u32> {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(value.into())
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn decodes_the_rfc_examples() {
        let cases = [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYg==", "foob"),
            ("Zm9vYmE=", "fooba"),
        ];
        for (text, plain) in cases {
            assert_eq!(decode(text).as_deref(), Some(plain.as_bytes()));
        }
        assert_eq!(decode("+/+/").as_deref(), Some(&[0xfb, 0xff, 0xbf][..]));
        for wrong in ["Z", "Zm9vY", "Zm 9", "Zm9-"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }
}
