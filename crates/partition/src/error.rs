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
        /// All required variables, including those that are set already.
        names: Vec<&'static str>,
    },
    /// The value of a variable is invalid.
    #[error("invalid value {value:?} of {name}: it must be {expected}")]
    Value {
        /// Name of the variable in the ConfigMap, the Secret or the environment.
        name: &'static str,
        value: String,
        /// Description of the valid values, for example `http or https`.
        expected: &'static str,
    },
    /// The GUID range ends before it starts, or includes the all-zeros or the all-ones GUID.
    #[error("GUID range {first} to {last} {problem}")]
    Range { first: Guid, last: Guid, problem: &'static str },
    /// A certificate or key is not valid PEM. The message does not contain its text, which may be a key.
    #[error("{name} is not valid PEM: {problem}")]
    Certificate {
        /// Name of the variable that contains the PEM text.
        name: &'static str,
        /// Message of the PEM parser.
        problem: String,
    },
}

impl SettingError {
    /// Converts the error to the form that users see, with a remedy.
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
        /// Display name of the subnet manager.
        manager: String,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No response in time. The request may or may not have been applied.
    #[error("{manager}: no response to {request} within {} s", timeout.as_secs())]
    Timeout {
        /// Display name of the subnet manager.
        manager: String,
        request: String,
        /// How long the client waited.
        timeout: Duration,
    },
    /// The subnet manager responded with an error status.
    #[error("{manager}: {request} failed with status {status}: {body}")]
    Rejected {
        /// Display name of the subnet manager.
        manager: String,
        request: String,
        /// HTTP status code.
        status: u16,
        /// The beginning of the response body.
        body: String,
    },
    /// The response cannot be parsed.
    #[error("{manager}: invalid response to {request}: {problem}")]
    InvalidResponse {
        /// Display name of the subnet manager.
        manager: String,
        request: String,
        problem: String,
    },
    /// A file could not be read or written.
    #[error("cannot {operation} {}: {source}", path.display())]
    File {
        /// `read` or `write`.
        operation: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    /// A partitions file that opensm would reject, or that would make every port a full member of the default
    /// partition. It is never written.
    #[error("invalid partitions file: {problem}")]
    UnsafePartitionsFile { problem: String },
    /// The opensm on a host is not ready, or a request to it failed.
    #[error("subnet manager {host}: {problem}")]
    Host { host: String, problem: String },
}

/// Whether a failed request may have been applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// The request was not applied: the subnet manager rejected it, or it was never sent.
    NotApplied,
    /// The request may or may not have been applied.
    Unknown,
}

impl Error {
    /// Returns `NotApplied` if the request was rejected with a 4xx status or was never sent, otherwise
    /// `Unknown`.
    pub fn outcome(&self) -> RequestOutcome {
        match self {
            Self::Rejected { status, .. } if (400..500).contains(status) => RequestOutcome::NotApplied,
            Self::UnsafePartitionsFile { .. } => RequestOutcome::NotApplied,
            _ => RequestOutcome::Unknown,
        }
    }

    /// Whether the subnet manager rejected the credentials (status 401 or 403).
    pub fn is_unauthorized(&self) -> bool {
        matches!(self, Self::Rejected { status: 401 | 403, .. })
    }

    /// Converts the error to the form that users see, with a remedy.
    pub fn fault(&self) -> Fault {
        let remedy = match self {
            Self::Rejected { status: 401 | 403, .. } => {
                "correct UFM_USERNAME and UFM_PASSWORD, or UFM_TOKEN, in the Secret ib-kubernetes-ufm-secret"
            }
            Self::Unreachable { .. } | Self::Timeout { .. } => {
                "check that the subnet manager runs and that the cluster can reach it; retried automatically"
            }
            Self::UnsafePartitionsFile { .. } => {
                "correct the part of partitions.conf outside of Ferroband's section"
            }
            _ => "check the log of the subnet manager; retried automatically",
        };
        Fault::new(FaultCode::PortNotReady, "subnet manager", self.to_string(), remedy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejected(status: u16) -> Error {
        Error::Rejected { manager: "ufm".into(), request: "POST".into(), status, body: String::new() }
    }

    fn timed_out() -> Error {
        Error::Timeout { manager: "ufm".into(), request: "POST".into(), timeout: Duration::from_secs(15) }
    }

    #[test]
    fn only_a_refused_request_is_known_not_to_be_applied() {
        let unsafe_file = Error::UnsafePartitionsFile { problem: "it is empty".into() };
        for error in [rejected(400), rejected(404), rejected(499), unsafe_file] {
            assert_eq!(error.outcome(), RequestOutcome::NotApplied, "{error}");
        }
        for error in [rejected(302), rejected(500), rejected(503), timed_out()] {
            assert_eq!(error.outcome(), RequestOutcome::Unknown, "{error}");
        }
    }

    #[test]
    fn only_401_and_403_mean_wrong_credentials() {
        assert!(rejected(401).is_unauthorized() && rejected(403).is_unauthorized());
        assert!(!rejected(400).is_unauthorized() && !rejected(500).is_unauthorized());
        assert!(!timed_out().is_unauthorized());
    }

    #[test]
    fn remedy_names_what_the_user_can_change() {
        let unsafe_file = Error::UnsafePartitionsFile { problem: "it is empty".into() };
        let host = Error::Host { host: "n1".into(), problem: "opensm does not run".into() };
        for (error, remedy) in [
            (rejected(403), "UFM_PASSWORD"),
            (timed_out(), "can reach it"),
            (unsafe_file, "partitions.conf"),
            (rejected(500), "log of the subnet manager"),
            (host, "log of the subnet manager"),
        ] {
            let fault = error.fault();
            assert!(fault.remedy.contains(remedy), "{fault}");
            assert_eq!((fault.code, fault.cause), (FaultCode::PortNotReady, error.to_string()));
        }
    }
}
