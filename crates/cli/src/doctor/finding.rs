//! One thing that was looked at.

use serde::Serialize;

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DoctorVerdict {
    /// As it should be.
    Good,
    /// Worth knowing, not wrong.
    Note,
    /// Something does not work, or will not.
    Wrong,
}

impl DoctorVerdict {
    /// For tables.
    pub fn label(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Note => "note",
            Self::Wrong => "WRONG",
        }
    }
}

/// What was looked at, what was seen, and what to do.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct DoctorFinding {
    /// How it is.
    pub verdict: DoctorVerdict,
    /// What was looked at.
    pub check: String,
    /// What was seen.
    pub seen: String,
    /// What to do, unless it is good.
    pub remedy: Option<String>,
}

impl DoctorFinding {
    /// It is as it should be.
    pub fn ok(check: impl Into<String>, seen: impl Into<String>) -> Self {
        Self { verdict: DoctorVerdict::Good, check: check.into(), seen: seen.into(), remedy: None }
    }

    /// It is worth knowing.
    pub fn note(check: impl Into<String>, seen: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { verdict: DoctorVerdict::Note, remedy: Some(remedy.into()), ..Self::ok(check, seen) }
    }

    /// It is wrong.
    pub fn problem(check: impl Into<String>, seen: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { verdict: DoctorVerdict::Wrong, ..Self::note(check, seen, remedy) }
    }
}
