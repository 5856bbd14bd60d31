//! Results of the checks of `ferroband doctor`.

use serde::Serialize;

/// Severity of a finding. `Problem` makes `ferroband doctor` exit with status 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DoctorVerdict {
    /// The check found no problem.
    #[serde(rename = "ok")]
    Good,
    /// The check found something that a user should know about, but nothing fails because of it.
    Note,
    /// The check found something that does not work or will fail.
    Problem,
}

impl DoctorVerdict {
    /// Text in the first column of the table that `ferroband doctor` prints.
    pub fn label(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Note => "note",
            Self::Problem => "PROBLEM",
        }
    }
}

/// Result of one check, with a remedy unless the verdict is `Good`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct DoctorFinding {
    pub verdict: DoctorVerdict,
    /// Subject of the check, for example a pod, a pool or a port.
    pub check: String,
    /// Observed state, for example a port state or an error message.
    pub observed: String,
    /// What the user should do; absent if the verdict is `Good`.
    pub remedy: Option<String>,
}

impl DoctorFinding {
    pub fn ok(check: impl Into<String>, observed: impl Into<String>) -> Self {
        Self { verdict: DoctorVerdict::Good, check: check.into(), observed: observed.into(), remedy: None }
    }

    pub fn note(check: impl Into<String>, observed: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { verdict: DoctorVerdict::Note, remedy: Some(remedy.into()), ..Self::ok(check, observed) }
    }

    pub fn problem(check: impl Into<String>, observed: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { verdict: DoctorVerdict::Problem, ..Self::note(check, observed, remedy) }
    }
}

/// Names the first of several objects and counts the others.
pub fn first_and_more(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [first, others @ ..] => format!("{first} and {} more", others.len()),
    }
}
