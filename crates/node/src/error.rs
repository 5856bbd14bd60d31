//! Errors of the node daemon.

pub use ferroband_daemon::error_chain;
use ferroband_daemon::tasks::TaskEnded;
use ferroband_model::{Fault, FaultCode};
use std::{
    io,
    path::{Path, PathBuf},
};
use tokio::task::spawn_blocking;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("cannot {action} {path}", path = path.display())]
    File {
        /// Verb in the error message, such as `read`, `write`, `create` or `remove`.
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// A Unix socket cannot be created, or its server failed.
    #[error("cannot serve the Unix socket {path}", path = path.display())]
    Serve { path: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
    /// The kubelet rejected the registration of a resource.
    #[error("the kubelet at {path} did not register {resource}", path = path.display())]
    Register { path: PathBuf, resource: String, source: Box<tonic::Status> },
    /// The kubelet's PodResources API is unreachable or did not return the devices of a pod.
    #[error("the kubelet at {path} did not return the devices of pod {pod}", path = path.display())]
    Kubelet { path: PathBuf, pod: String, source: Box<dyn std::error::Error + Send + Sync> },
    /// Neither the kubelet's PodResources socket nor its device checkpoint file exists.
    #[error("devices of pod {pod}: neither the kubelet's socket {socket} nor its checkpoint exists", socket = socket.display())]
    NoKubelet { pod: String, socket: PathBuf },
    /// A request to the Kubernetes API server failed.
    #[error("API server: cannot {action} {object}")]
    Api {
        /// Verb in the error message, such as `patch`, `create` or `replace`.
        action: &'static str,
        /// Kind and name of the object, such as `pod default/a` or `AddressBlock x`.
        object: String,
        source: Box<kube::Error>,
    },
    /// An API object does not have the expected form.
    #[error("cannot parse {object}")]
    Unreadable { object: String, source: Box<dyn std::error::Error + Send + Sync> },
    /// There is no usable client configuration for the API server.
    #[error("cannot connect to the API server")]
    Config {
        #[source]
        source: Box<kube::Error>,
    },
    /// A thread could not be started, or a background task ended unexpectedly.
    #[error("task {task:?} of the node daemon failed")]
    Task { task: &'static str, source: Option<Box<dyn std::error::Error + Send + Sync>> },
    #[error(transparent)]
    Kernel(#[from] ferroband_kernel::Error),
    #[error(transparent)]
    Attach(#[from] ferroband_attach::Error),
    #[error(transparent)]
    Simulation(#[from] ferroband_sim::Error),
    /// A [`Fault`], which already has a cause and a remedy for the user.
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl Error {
    /// Returns a function that adds what was done to a file to its error.
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { action, path: path.to_owned(), source }
    }

    /// Returns a function that adds what was done to an API object to its error.
    pub(crate) fn api(action: &'static str, object: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Api { action, object: object.into(), source: Box::new(source) }
    }

    /// Converts the error to the [`Fault`] that a CNI call returns.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Fault(fault) => fault.clone(),
            Self::Kernel(e) => e.fault(),
            Self::Attach(e) => e.fault(),
            Self::Simulation(e) => e.fault(),
            Self::Api { object, source, .. } => Fault::new(
                FaultCode::ApiUnavailable,
                object,
                error_chain(source.as_ref()),
                "retried automatically; check that the API server is up and that Ferroband's ClusterRole is installed",
            ),
            Self::Kubelet { pod, .. } | Self::NoKubelet { pod, .. } => Fault::new(
                FaultCode::DaemonAway,
                format!("devices of pod {pod}"),
                error_chain(self),
                "retried automatically; check that the kubelet is running and /var/lib/kubelet is mounted",
            ),
            other => Fault::new(
                FaultCode::DaemonAway,
                "node daemon",
                error_chain(other),
                "check the log of the ferroband-node pod on this node",
            ),
        }
    }
}

/// Runs `work` on a thread that may block. `task` names it in the error if it panics.
pub(crate) async fn blocking<T: Send + 'static>(
    task: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    spawn_blocking(work).await.map_err(|e| Error::Task { task, source: Some(Box::new(e)) })
}

impl From<TaskEnded> for Error {
    fn from(TaskEnded { task, source }: TaskEnded) -> Self {
        Self::Task { task, source }
    }
}
