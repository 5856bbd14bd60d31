//! How versions of UFM differ.

/// What a UFM answers where versions differ.
#[derive(Clone, Debug)]
pub struct Manners {
    /// The status of a success.
    pub success: u16,
    /// What it says about a partition that it does not have.
    pub missing: Missing,
    /// Whether adding members makes the partition.
    pub creates: bool,
    /// Whether it knows `DELETE …/guids/…`; the older way works always.
    pub deletes: bool,
    /// The status for creating what exists.
    pub exists: u16,
    /// How all ports are in the default partition; versions before 6.19 do not tell.
    pub default_membership: Option<&'static str>,
    /// The user and the password.
    pub user: (String, String),
    /// Tokens it takes under `/ufmRestV3`.
    pub tokens: Vec<String>,
}

/// What is said about a partition that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// 200 and `{}`.
    EmptyObject,
    /// 404.
    NotFound,
}

impl Default for Manners {
    fn default() -> Self {
        Self {
            success: 200,
            missing: Missing::EmptyObject,
            creates: true,
            deletes: true,
            exists: 400,
            default_membership: Some("limited"),
            user: ("admin".to_owned(), "123456".to_owned()),
            tokens: Vec::new(),
        }
    }
}
