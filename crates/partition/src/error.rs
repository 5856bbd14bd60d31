//! Errors of settings and of subnet manager requests.

use ferroband_model::{Fault, FaultCode, Guid};
use std::path::PathBuf;
use std::time::Duration;

/// An invalid setting, reported before any request is sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// Required variables are not set.
    #[error("{} must be set", names.join(", "))]
    Missing {
        /// The variables.
        names: Vec<&'static str>,
    },
    /// The value of a variable is invalid.
    #[error("{name}={value:?} is not {expected}")]
    Value {
        /// The variable.
        name: &'static str,
        value: String,
        /// What is valid.
        expected: &'static str,
    },
    /// The GUID range is invalid.
    #[error("GUID range {first} to {last} {problem}")]
    Range { first: Guid, last: Guid, problem: &'static str },
    /// A certificate or key is not valid PEM. The message does not contain its text, which may be a key.
    #[error("{name} is not valid PEM: {problem}")]
    Certificate {
        /// The variable.
        name: &'static str,
        /// The parser's error.
        problem: String,
    },
}

impl SettingError {
    /// The user-facing error.
    pub fn fault(&self) -> Fault {
        Fault::new(
            FaultCode::InvalidConfig,
            "subnet manager settings",
            self.to_string(),
            "correct the Secret ib-kubernetes-ufm-secret or the ConfigMap ib-kubernetes-config",
        )
    }
}

/// A failed request to a subnet manager. No message contains a password, a token or a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The connection could not be established, or it broke.
    #[error("{manager}: {source}")]
    Unreachable {
        /// The subnet manager.
        manager: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No response in time. The request may or may not have been applied.
    #[error("{manager}: no response to {request} within {} s", timeout.as_secs())]
    Timeout {
        /// The subnet manager.
        manager: String,
        request: String,
        /// The time limit.
        timeout: Duration,
    },
    /// The subnet manager responded with an error status.
    #[error("{manager}: {request} failed with status {status}: {body}")]
    Rejected {
        /// The subnet manager.
        manager: String,
        request: String,
        /// The HTTP status.
        status: u16,
        /// The beginning of the response body.
        body: String,
    },
    /// The response cannot be parsed.
    #[error("{manager}: invalid response to {request}: {problem}")]
    InvalidResponse {
        /// The subnet manager.
        manager: String,
        request: String,
        problem: String,
    },
    /// A file could not be read or written.
    #[error("{operation} {}: {source}", path.display())]
    File {
        /// `read` or `write`.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A partitions file that opensm would reject, or that would open the fabric. It is never written.
    #[error("partitions file: {problem}")]
    UnsafePartitionsFile { problem: String },
    /// A subnet manager host is not ready or failed.
    #[error("subnet manager on {host}: {problem}")]
    Host { host: String, problem: String },
}

/// Whether a failed request may have been applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// It was not applied: wrong credentials or an invalid value.
    NotApplied,
    /// It may or may not have been applied.
    Unknown,
}

impl Error {
    /// Whether the request may have been applied.
    pub fn outcome(&self) -> RequestOutcome {
        match self {
            Self::Rejected { status, .. } if (400..500).contains(status) => RequestOutcome::NotApplied,
            Self::UnsafePartitionsFile { .. } => RequestOutcome::NotApplied,
            _ => RequestOutcome::Unknown,
        }
    }

    /// Whether the credentials were rejected.
    pub fn is_unauthorized(&self) -> bool {
        matches!(self, Self::Rejected { status: 401 | 403, .. })
    }

    /// The user-facing error.
    pub fn fault(&self) -> Fault {
        let remedy = match self {
            Self::Rejected { status: 401 | 403, .. } => {
                "correct UFM_USERNAME and UFM_PASSWORD, or UFM_TOKEN, in the Secret ib-kubernetes-ufm-secret"
            }
            Self::Unreachable { .. } | Self::Timeout { .. } => {
                "check that it runs and is reachable from the cluster daemon; retried automatically"
            }
            Self::UnsafePartitionsFile { .. } => {
                "correct the part of partitions.conf outside of Ferroband's section"
            }
            _ => "check the log of the subnet manager; retried automatically",
        };
        Fault::new(FaultCode::PortNotReady, "subnet manager", self.to_string(), remedy)
    }
}
