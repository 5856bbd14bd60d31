//! A hash that is the same on all nodes and in all releases.

/// FNV-1a with 64 bits. Values that depend on it are stored and sent between nodes, so the result must never change.
/// Its low bits are better distributed than its high bits; mix the result if the high bits matter.
pub fn fnv1a(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test vectors of the authors of FNV.
    #[test]
    fn hash_agrees_with_the_published_test_vectors() {
        assert_eq!(fnv1a(*b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(*b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(*b"foobar"), 0x8594_4171_f739_67e8);
    }
}
