//! What can go wrong in the daemon.

pub use ferroband_daemon::error_chain;
use ferroband_daemon::tasks::TaskEnded;
use ferroband_model::{Fault, FaultCode};
use std::{io, path::PathBuf};

/// A failure of the node daemon.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A folder cannot be watched.
    #[error("cannot watch {path}", path = path.display())]
    Watch {
        /// The folder.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file or folder cannot be read, written, made or removed.
    #[error("cannot {action} {path}", path = path.display())]
    File {
        /// What was being done: `read`, `write`, `make`, `remove`, …
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A socket cannot be served.
    #[error("cannot serve {path}", path = path.display())]
    Serve {
        /// The socket.
        path: PathBuf,
        /// What the transport said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The kubelet did not take the registration of a resource.
    #[error("the kubelet at {path} did not register {resource}", path = path.display())]
    Register {
        /// The kubelet's socket.
        path: PathBuf,
        /// The resource.
        resource: String,
        /// What it said.
        source: Box<tonic::Status>,
    },
    /// The kubelet did not say which devices a pod has.
    #[error("the kubelet at {path} did not tell the devices of pod {pod}", path = path.display())]
    Kubelet {
        /// The kubelet's socket.
        path: PathBuf,
        /// The pod.
        pod: String,
        /// What went wrong.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// There is no way to learn which devices a pod has.
    #[error("devices of pod {pod}: neither the kubelet's socket {socket} nor its checkpoint exists", socket = socket.display())]
    NoKubelet {
        /// The pod.
        pod: String,
        /// The kubelet's socket.
        socket: PathBuf,
    },
    /// The Kubernetes API server refused or did not answer.
    #[error("API server: {action} {object}")]
    Api {
        /// What was asked: `patch`, `create`, `replace`, …
        action: &'static str,
        /// Of what: `pod default/a`, `AddressBlock x`.
        object: String,
        /// What it answered.
        source: Box<kube::Error>,
    },
    /// An object of the API server is not what it should be.
    #[error("{object} cannot be read")]
    Unreadable {
        /// Which.
        object: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No API server is configured.
    #[error("no way to the API server")]
    Config {
        /// What is missing.
        #[source]
        source: Box<kube::Error>,
    },
    /// A thread could not be started, or a task ended without being asked to.
    #[error("{task} ended")]
    Task {
        /// Which.
        task: &'static str,
        /// Why, when it is known.
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// Linux refused something.
    #[error(transparent)]
    Kernel(#[from] ferroband_kernel::Error),
    /// The journal's folder is not usable.
    #[error(transparent)]
    Attach(#[from] ferroband_attach::Error),
    /// The simulated hardware cannot be set up.
    #[error(transparent)]
    Simulation(#[from] ferroband_sim::Error),
    /// It was put into people's words already.
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl Error {
    /// The same for people who are told at the end of a CNI call.
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
                "it is tried again; check that the API server is up and that the ClusterRole of Ferroband is in place",
            ),
            Self::Kubelet { pod, .. } | Self::NoKubelet { pod, .. } => Fault::new(
                FaultCode::DaemonAway,
                format!("devices of pod {pod}"),
                error_chain(self),
                "it is tried again; check that the kubelet runs and that /var/lib/kubelet is mounted into the daemon",
            ),
            other => Fault::new(
                FaultCode::DaemonAway,
                "node daemon",
                error_chain(other),
                "see the log of the DaemonSet ferroband-node on this node",
            ),
        }
    }
}

impl From<TaskEnded> for Error {
    fn from(TaskEnded { task, source }: TaskEnded) -> Self {
        Self::Task { task, source }
    }
}
