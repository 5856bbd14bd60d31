//! Results of checks.

use serde::Serialize;

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DoctorVerdict {
    /// No problem.
    Good,
    /// Worth knowing, but not a problem.
    Note,
    /// Something does not work or will fail.
    Wrong,
}

impl DoctorVerdict {
    /// Label in tables.
    pub fn label(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Note => "note",
            Self::Wrong => "WRONG",
        }
    }
}

/// A check, its result and a remedy.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct DoctorFinding {
    /// The result.
    pub verdict: DoctorVerdict,
    /// What was checked.
    pub check: String,
    /// What was observed.
    pub seen: String,
    /// How to fix it, unless there is no problem.
    pub remedy: Option<String>,
}

impl DoctorFinding {
    pub fn ok(check: impl Into<String>, seen: impl Into<String>) -> Self {
        Self { verdict: DoctorVerdict::Good, check: check.into(), seen: seen.into(), remedy: None }
    }

    pub fn note(check: impl Into<String>, seen: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { verdict: DoctorVerdict::Note, remedy: Some(remedy.into()), ..Self::ok(check, seen) }
    }

    pub fn problem(check: impl Into<String>, seen: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { verdict: DoctorVerdict::Wrong, ..Self::note(check, seen, remedy) }
    }
}
