//! How versions of UFM differ.

/// What a UFM answers where versions differ.
#[derive(Clone, Debug)]
pub struct VersionQuirks {
    /// The status of a success.
    pub success_status: u16,
    /// What it says about a partition that it does not have.
    pub missing_partition: MissingPartitionReply,
    /// Whether adding members makes the partition.
    pub add_creates_partition: bool,
    /// Whether it knows `DELETE …/guids/…`; the older way works always.
    pub supports_delete: bool,
    /// The status for creating what exists.
    pub exists_status: u16,
    /// How all ports are in the default partition; versions before 6.19 do not tell.
    pub default_membership: Option<&'static str>,
    /// The user and the password.
    pub credentials: (String, String),
    /// Tokens it takes under `/ufmRestV3`.
    pub tokens: Vec<String>,
}

/// What is said about a partition that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingPartitionReply {
    /// 200 and `{}`.
    EmptyObject,
    /// 404.
    NotFound,
}

impl Default for VersionQuirks {
    fn default() -> Self {
        Self {
            success_status: 200,
            missing_partition: MissingPartitionReply::EmptyObject,
            add_creates_partition: true,
            supports_delete: true,
            exists_status: 400,
            default_membership: Some("limited"),
            credentials: ("admin".to_owned(), "123456".to_owned()),
            tokens: Vec::new(),
        }
    }
}
