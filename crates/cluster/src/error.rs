//! Errors of the cluster daemon.

use ferroband_daemon::{RequestPanic, tasks::TaskEnded};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No API server is configured.
    #[error("cannot connect to the API server")]
    Config { source: Box<kube::Error> },
    /// A call to the API server failed.
    #[error("cannot {action} {object}")]
    Api {
        /// Verb of the API call, for example `apply` or `delete`.
        action: &'static str,
        /// Kind and name of the object, for example `SriovNetworkNodeState ferroband-system/worker1`.
        object: String,
        source: Box<kube::Error>,
    },
    /// Several calls failed, for objects that do not depend on each other.
    #[error("{count} of the writes failed, the first: {first}")]
    Several { count: usize, first: String, source: Box<Self> },
    #[error("cannot generate the webhook's certificate")]
    Certificate { source: rcgen::Error },
    #[error("cannot serve the webhook on port {port}")]
    Serve { port: u16, source: Box<dyn std::error::Error + Send + Sync> },
    /// An object caused a panic while it was processed.
    #[error("cannot process {object}")]
    Panic {
        /// Kind and name of the object.
        object: String,
        source: RequestPanic,
    },
    /// A background task of the daemon could not be started, or ended unexpectedly.
    #[error(transparent)]
    Task(#[from] TaskEnded),
}

impl Error {
    /// Combines the errors of independent calls. Succeeds if there is none.
    pub fn from_all(errors: impl IntoIterator<Item = Self>) -> Result<(), Self> {
        let mut errors = errors.into_iter();
        match (errors.next(), errors.count()) {
            (None, _) => Ok(()),
            (Some(only), 0) => Err(only),
            (Some(first), more) => {
                Err(Self::Several { count: more + 1, first: first.to_string(), source: Box::new(first) })
            }
        }
    }

    /// Returns a function for `map_err` that wraps the error of an API call. `action` is the verb of the
    /// call, and `object` the kind and name of its object.
    pub fn api(action: &'static str, object: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let object = object.into();
        move |source| Self::Api { action, object, source: Box::new(source) }
    }
}
