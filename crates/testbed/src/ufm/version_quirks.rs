//! Differences between UFM versions.

/// Behaviour that differs between UFM versions.
#[derive(Clone, Debug)]
pub struct VersionQuirks {
    /// Status code of a successful change.
    pub success_status: u16,
    pub missing_partition: MissingPartitionReply,
    /// Whether adding members to a partition that does not exist creates it.
    pub add_creates_partition: bool,
    /// Whether `DELETE …/guids/…` is supported; the older `remove_guids_from_pkey` always is.
    pub supports_delete: bool,
    /// Status code when creating a partition that exists.
    pub exists_status: u16,
    /// Membership of all ports in the default partition; versions before 6.19 do not report it.
    pub default_membership: Option<&'static str>,
    /// Accepted user name and password.
    pub credentials: (String, String),
    /// Tokens accepted under `/ufmRestV3`.
    pub tokens: Vec<String>,
}

/// Response to a request for a partition that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingPartitionReply {
    /// Status 200 with `{}`.
    EmptyObject,
    /// Status 404.
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
