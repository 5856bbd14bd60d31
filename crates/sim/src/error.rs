//! Why a simulation could not be brought up, read or taken down.

use ferroband_kernel::{Errno, Error as KernelError};
use ferroband_model::{Fault, FaultCode};
use std::io;
use std::path::PathBuf;

/// A failure of the simulation itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel refused something.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// A file or directory could not be made, read or removed.
    #[error("cannot {doing} {}", path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The marker is there but not in our form.
    #[error("{} is not the marker of a simulation", path.display())]
    InvalidFile {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// A simulation is up already, and another one than asked for.
    #[error("a simulation of profile {profile:?} with seed {seed:?} and uplink {uplink:?} is up")]
    AlreadyUp {
        /// Its profile.
        profile: String,
        /// Its seed.
        seed: String,
        /// Its uplink.
        uplink: Option<String>,
    },
    /// A profile says something that no hardware has.
    #[error("profile {profile}: {field} cannot be {text:?}")]
    InvalidProfile {
        /// Which profile.
        profile: String,
        /// Which field of it.
        field: &'static str,
        /// What it says.
        text: String,
    },
    /// A description of hardware cannot be understood.
    #[error("{file}: {field} is wrong")]
    InvalidDescription {
        /// The file.
        file: String,
        /// The field, by its path from the top: `hcas[0].ports[1].state`.
        field: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// There is no simulation to change.
    #[error("no simulation is up")]
    NotUp,
    /// The simulated machine has nothing of that name.
    #[error("there is no simulated device {device}")]
    NoDevice {
        /// The name, PCI address or interface asked for.
        device: String,
    },
    /// The name of a simulated interface belongs to another interface.
    #[error("interface {netdev} is there already and is of kind {kind}")]
    NameTaken {
        /// The name.
        netdev: String,
        /// What has it.
        kind: String,
    },
    /// The interface that was to carry the partitions between nodes is not there.
    #[error("uplink {uplink} does not exist")]
    NoUplink {
        /// Its name.
        uplink: String,
    },
}

impl From<Error> for KernelError {
    /// What a caller of the kernel is told when the simulation itself fails: an I/O error, with the words.
    fn from(error: Error) -> Self {
        match error {
            Error::Kernel(error) => error,
            Error::File { doing, path, source } => Self::File { doing, path, source },
            other => Self::DeviceRequest {
                doing: "simulate".to_owned(),
                device: "any".to_owned(),
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
    /// The same, as it is told to people.
    pub fn fault(&self) -> Fault {
        let (code, what, remedy): (_, String, _) = match self {
            Self::Kernel(error) => return error.fault(),
            Self::File { path, .. } => (
                FaultCode::KernelRefused,
                format!("file {}", path.display()),
                "see that the file system is writable and allows device files, and that you are root",
            ),
            Self::InvalidFile { path, .. } => (
                FaultCode::Undecodable,
                format!("file {}", path.display()),
                "take the simulation down and bring it up again with this version",
            ),
            Self::AlreadyUp { .. } => {
                (FaultCode::InvalidConfig, "simulation".into(), "take the one that is up down first")
            }
            Self::InvalidProfile { profile, .. } => {
                (FaultCode::InvalidConfig, format!("profile {profile}"), "correct the profile")
            }
            Self::InvalidDescription { file, .. } => {
                (FaultCode::Undecodable, format!("file {file}"), "correct the field of the description")
            }
            Self::NotUp => (FaultCode::InvalidConfig, "simulation".into(), "bring one up first"),
            Self::NoDevice { device } => (
                FaultCode::NoDevice,
                format!("device {device}"),
                "name an adapter or virtual function of the simulation that is up",
            ),
            Self::NameTaken { netdev, .. } => (
                FaultCode::NameTaken,
                format!("interface {netdev}"),
                "rename that interface, or the one in the profile",
            ),
            Self::NoUplink { uplink } => (
                FaultCode::NoParent,
                format!("interface {uplink}"),
                "name an interface of the node that reaches the other nodes, or none",
            ),
        };
        let cause = match std::error::Error::source(self) {
            Some(source) => format!("{self}: {source}"),
            None => self.to_string(),
        };
        Fault::new(code, what, cause, remedy)
    }
}
