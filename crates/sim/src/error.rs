//! Errors of starting, changing and removing a simulation.

use ferroband_kernel::{Errno, Error as KernelError};
use ferroband_model::{Fault, FaultCode};
use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// A file or directory could not be created, read or removed.
    #[error("cannot {doing} {}", path.display())]
    File {
        /// What failed, for the message: `read`, `create directory`.
        doing: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// The marker file, the state file or the firmware settings file of the simulation has unexpected
    /// content.
    #[error("{} is not a valid file of the simulation", path.display())]
    InvalidFile { path: PathBuf, source: serde_json::Error },
    /// A simulation with a different profile, seed or uplink is already running.
    #[error(
        "a simulation of profile {profile:?} with seed {seed:?} and uplink {uplink:?} is already running"
    )]
    AlreadyUp { profile: String, seed: String, uplink: Option<String> },
    /// A field of a hardware profile is invalid, or has a value that another device of the profile already
    /// has.
    #[error("profile {profile}: invalid or duplicate value of {field}: {text:?}")]
    InvalidProfile {
        profile: String,
        field: &'static str,
        /// The invalid value, or a description of the problem.
        text: String,
    },
    /// A profile file cannot be parsed.
    #[error("{file}: invalid value of {field}")]
    InvalidDescription {
        file: String,
        /// Path of the field: `hcas[0].ports[1].state`.
        field: String,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A change was requested, but no simulation is running.
    #[error("no simulation is running on this host")]
    NotUp,
    /// The simulated host has no such device.
    #[error("the simulation has no device {device}")]
    NoDevice {
        /// Requested PCI address, RDMA device or interface.
        device: String,
    },
    /// The name for a simulated interface is already used by an interface that the simulation did not create.
    #[error("another interface {netdev}, of kind {kind}, already exists")]
    NameTaken {
        netdev: String,
        /// Kind of the other interface, for example `bridge`.
        kind: String,
    },
    /// The interface that connects the partitions of several nodes does not exist.
    #[error("uplink interface {uplink} does not exist")]
    NoUplink { uplink: String },
}

impl From<Error> for KernelError {
    /// Converts an error of the simulation itself to a kernel error with code EIO and the same message.
    fn from(error: Error) -> Self {
        match error {
            Error::Kernel(error) => error,
            Error::File { doing, path, source } => Self::File { doing, path, source },
            other => Self::DeviceRequest {
                doing: "simulate".to_owned(),
                device: "(all)".to_owned(),
                errno: Errno::EIO,
                message: Some(match std::error::Error::source(&other) {
                    Some(source) => format!("{other}: {source}"),
                    None => other.to_string(),
                }),
            },
        }
    }
}

impl Error {
    /// Converts the error to the form that users see, with a remedy.
    pub fn fault(&self) -> Fault {
        let (code, what, remedy): (_, String, _) = match self {
            Self::Kernel(error) => return error.fault(),
            Self::File { path, .. } => (
                FaultCode::KernelRefused,
                format!("file {}", path.display()),
                "run as root, and check that the file system is writable and allows device files",
            ),
            Self::InvalidFile { path, .. } => (
                FaultCode::Undecodable,
                format!("file {}", path.display()),
                "stop the simulation and start it again with this version (ferroband sim down, ferroband sim up)",
            ),
            Self::AlreadyUp { .. } => (
                FaultCode::InvalidConfig,
                "simulation".into(),
                "stop the running simulation first (ferroband sim down)",
            ),
            Self::InvalidProfile { profile, .. } => {
                (FaultCode::InvalidConfig, format!("profile {profile}"), "correct this field in the profile")
            }
            Self::InvalidDescription { file, .. } => {
                (FaultCode::Undecodable, format!("file {file}"), "correct this field in the file")
            }
            Self::NotUp => {
                (FaultCode::InvalidConfig, "simulation".into(), "start a simulation first (ferroband sim up)")
            }
            Self::NoDevice { device } => (
                FaultCode::NoDevice,
                format!("device {device}"),
                "specify an adapter or a virtual function of the running simulation",
            ),
            Self::NameTaken { netdev, .. } => (
                FaultCode::NameTaken,
                format!("interface {netdev}"),
                "rename the existing interface, or change the name in the profile",
            ),
            Self::NoUplink { uplink } => (
                FaultCode::NoParent,
                format!("interface {uplink}"),
                "select an interface of the node that reaches the other nodes, or omit the uplink",
            ),
        };
        let cause = match std::error::Error::source(self) {
            Some(source) => format!("{self}: {source}"),
            None => self.to_string(),
        };
        Fault::new(code, what, cause, remedy)
    }
}
