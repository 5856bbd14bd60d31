//! What can go wrong in the cluster daemon.

use ferroband_daemon::tasks::TaskEnded;

/// A failure of the cluster daemon.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No API server is configured.
    #[error("no way to the API server")]
    Config {
        /// What is missing.
        source: Box<kube::Error>,
    },
    /// The API server refused or did not answer.
    #[error("API server: {action} {object}")]
    Api {
        /// What was asked: `apply`, `delete`, …
        action: &'static str,
        /// Of what: `SriovNetworkNodeState ferroband-system/worker1`.
        object: String,
        /// What it answered.
        source: Box<kube::Error>,
    },
    /// The webhook's certificate could not be made.
    #[error("cannot make the webhook's certificate")]
    Certificate {
        /// Why.
        source: rcgen::Error,
    },
    /// The webhook cannot be served.
    #[error("cannot serve the webhook on port {port}")]
    Serve {
        /// The port.
        port: u16,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A task could not be started, or ended without being asked to.
    #[error(transparent)]
    Task(#[from] TaskEnded),
}

impl Error {
    /// For `map_err`: the call was to do `action` to `object`.
    pub fn api(action: &'static str, object: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let object = object.into();
        move |source| Self::Api { action, object, source: Box::new(source) }
    }
}
