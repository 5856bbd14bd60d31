//! Supported versions of the CNI specification.

use ferroband_model::named_enum;

named_enum! {
    /// A version of the CNI specification. Newer versions compare greater.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum CniVersion {
        /// 0.1.0; also the default for a configuration without `cniVersion`.
        V0_1_0 = "0.1.0",
        /// 0.2.0: the last version with a single address per family.
        V0_2_0 = "0.2.0",
        /// 0.3.0: results list interfaces, and any number of addresses.
        V0_3_0 = "0.3.0",
        /// 0.3.1: plugin chains.
        V0_3_1 = "0.3.1",
        /// 0.4.0: CHECK, and `prevResult` on DEL.
        V0_4_0 = "0.4.0",
        /// 1.0.0: addresses in results have no `version` field any more.
        V1_0_0 = "1.0.0",
        /// 1.1.0: GC and STATUS.
        V1_1_0 = "1.1.0",
    }
}

impl CniVersion {
    /// The newest supported version.
    pub const NEWEST: Self = Self::V1_1_0;

    /// Parse a version. An empty text means 0.1.0.
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() { Some(Self::V0_1_0) } else { Self::from_name(text) }
    }

    /// All versions, separated by commas.
    pub fn supported_list() -> String {
        Self::ALL.map(Self::as_str).join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::CniVersion;

    #[test]
    fn only_the_seven_exact_versions_parse() {
        for version in CniVersion::ALL {
            assert_eq!(CniVersion::parse(version.as_str()), Some(version));
        }
        for text in ["0.5.0", "1.0", "v1.0.0", "1.1.0 ", "1.2.0"] {
            assert_eq!(CniVersion::parse(text), None, "{text}");
        }
        assert_eq!(CniVersion::parse(""), Some(CniVersion::V0_1_0));
    }

    #[test]
    fn versions_compare_by_age() {
        assert!(CniVersion::ALL.is_sorted());
        assert!(CniVersion::V0_3_1 < CniVersion::V0_4_0);
    }
}
