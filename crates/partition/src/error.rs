//! What can go wrong between us and a subnet manager.

use ferroband_model::{Fault, FaultCode, Guid};
use std::path::PathBuf;
use std::time::Duration;

/// A setting that cannot be used; told at start, before anything is touched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// Variables that must be set are not.
    #[error("{} must be set", names.join(", "))]
    Missing {
        /// Which.
        names: Vec<&'static str>,
    },
    /// A value is not what it should be.
    #[error("{name}={value:?} is not {expected}")]
    Value {
        /// The variable.
        name: &'static str,
        /// What it is.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
    /// The range of GUIDs is none.
    #[error("the range of GUIDs {first} to {last} {problem}")]
    Range {
        /// Its first.
        first: Guid,
        /// Its last.
        last: Guid,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A certificate is not PEM, or PEM of something else. The text is not shown: it may be a key.
    #[error("{name} holds no certificate in PEM form: {problem}")]
    Certificate {
        /// The variable.
        name: &'static str,
        /// What the reader said.
        problem: String,
    },
}

impl SettingError {
    /// As people are told.
    pub fn fault(&self) -> Fault {
        Fault::new(
            FaultCode::InvalidConfig,
            "subnet manager's settings",
            self.to_string(),
            "correct the Secret ib-kubernetes-ufm-secret or the ConfigMap ib-kubernetes-config",
        )
    }
}

/// A request to a subnet manager that failed. None of the messages holds a password, a token or a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No connection, or it broke.
    #[error("{manager}: {source}")]
    Unreachable {
        /// Which manager.
        manager: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No answer in time. Whether it was done is not known.
    #[error("{manager}: no answer to {request} within {} s", timeout.as_secs())]
    Timeout {
        /// Which manager.
        manager: String,
        /// What was asked.
        request: String,
        /// How long was waited.
        timeout: Duration,
    },
    /// It answered with an error.
    #[error("{manager}: {request} was answered with {status}: {body}")]
    Rejected {
        /// Which manager.
        manager: String,
        /// What was asked.
        request: String,
        /// The HTTP status.
        status: u16,
        /// The beginning of the answer.
        body: String,
    },
    /// It answered something that cannot be understood.
    #[error("{manager}: the answer to {request} is not understood: {problem}")]
    InvalidResponse {
        /// Which manager.
        manager: String,
        /// What was asked.
        request: String,
        /// What is wrong.
        problem: String,
    },
    /// A file could not be read or written.
    #[error("{operation} {}: {source}", path.display())]
    File {
        /// What was tried.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A partitions file that would open the fabric, or that opensm would not understand. Never written.
    #[error("partitions file: {problem}")]
    UnsafePartitionsFile {
        /// What is wrong with it.
        problem: String,
    },
    /// A host of the subnet manager does not follow.
    #[error("subnet manager on {host}: {problem}")]
    Host {
        /// The host.
        host: String,
        /// What it says, or that it says nothing.
        problem: String,
    },
}

/// What a failure means for what comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// It was not done, and not for want of trying: wrong credentials, a refused value.
    NotApplied,
    /// It may or may not have been done.
    Unknown,
}

impl Error {
    /// Whether it may have been done after all.
    pub fn outcome(&self) -> RequestOutcome {
        match self {
            Self::Rejected { status, .. } if (400..500).contains(status) => RequestOutcome::NotApplied,
            Self::UnsafePartitionsFile { .. } => RequestOutcome::NotApplied,
            _ => RequestOutcome::Unknown,
        }
    }

    /// Whether the credentials are wrong.
    pub fn is_unauthorized(&self) -> bool {
        matches!(self, Self::Rejected { status: 401 | 403, .. })
    }

    /// As people are told.
    pub fn fault(&self) -> Fault {
        let remedy = match self {
            Self::Rejected { status: 401 | 403, .. } => {
                "correct UFM_USERNAME and UFM_PASSWORD, or UFM_TOKEN, in the Secret ib-kubernetes-ufm-secret; it is read again when it changes"
            }
            Self::Unreachable { .. } | Self::Timeout { .. } => {
                "see that it runs and is reachable from the cluster daemon; it is tried again"
            }
            Self::UnsafePartitionsFile { .. } => {
                "correct the part of partitions.conf that is not Ferroband's"
            }
            _ => "see the log of the subnet manager; it is tried again",
        };
        Fault::new(FaultCode::PortNotReady, "subnet manager", self.to_string(), remedy)
    }
}
