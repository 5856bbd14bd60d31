//! Errors of kernel operations.

use ferroband_model::MalformedValue;
use netlink_packet_core::DecodeError;
use nix::errno::Errno;
use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing exists at the path of a network namespace. DEL treats this as already deleted.
    #[error("network namespace {} does not exist", path.display())]
    NoNetns { path: PathBuf },
    /// The path exists but is not a network namespace. After a reboot this is often the plain file on which the
    /// namespace was mounted.
    #[error("{} is not a network namespace", path.display())]
    NotNetns { path: PathBuf },
    /// A network namespace could not be opened, inspected or entered.
    #[error("cannot {doing} network namespace {}: {errno}", path.display())]
    Netns {
        /// The failed action: "open", "inspect" or "enter".
        doing: &'static str,
        path: PathBuf,
        errno: Errno,
    },
    /// The kernel rejected a request about an interface.
    #[error("cannot {doing} interface {interface}: {errno}{}", explanation(message.as_deref()))]
    InterfaceRequest {
        /// The failed action, such as "rename" or "add address 10.0.0.1/24 to".
        doing: String,
        /// Name of the interface; `#` and the index if it no longer exists; `(all)` if the request listed all
        /// interfaces.
        interface: String,
        errno: Errno,
        /// The kernel's explanation (extended acknowledgement), if it sent one.
        message: Option<String>,
    },
    /// The requested interface name is used by another interface.
    #[error("interface name {interface} is already in use")]
    NameTaken { interface: String },
    /// A netlink socket operation failed.
    #[error("cannot {doing} a {family} netlink socket")]
    Socket {
        /// The failed action: "open", "listen to" or "read from".
        doing: &'static str,
        /// The netlink family: "route", "RDMA" or "uevent".
        family: &'static str,
        source: io::Error,
    },
    /// The kernel sent a reply that cannot be decoded.
    #[error("cannot decode the kernel's reply about {interface}")]
    Undecodable {
        /// Interface or device of the request; `(all)` if the request listed all of them.
        interface: String,
        source: DecodeError,
    },
    /// The kernel has no RDMA support: ib_core is neither built in nor loaded.
    #[error("the kernel has no RDMA support")]
    NoRdma,
    /// The namespace has no RDMA device of that name.
    #[error("RDMA device {device} does not exist in the network namespace")]
    NoRdmaDevice { device: String },
    /// The kernel rejected a request about a PCI function, a virtual function or an RDMA device.
    #[error("cannot {doing} device {device}: {errno}{}", explanation(message.as_deref()))]
    DeviceRequest {
        /// The failed action, such as "set the number of virtual functions to 4 on" or "unbind".
        doing: String,
        /// PCI address or name of the device; `(all)` if the request was not about a single device.
        device: String,
        errno: Errno,
        /// The kernel's explanation (extended acknowledgement), if it sent one.
        message: Option<String>,
    },
    /// The parent of an IPoIB child does not exist.
    #[error("interface {interface} does not exist")]
    NoParent {
        /// Requested name or altname of the parent.
        interface: String,
    },
    /// The parent of an IPoIB child is not an IPoIB interface.
    #[error("interface {interface} is of kind {kind}, not ipoib")]
    NotIpoib {
        /// Requested name or altname of the parent.
        interface: String,
        /// Kind of the interface, such as `veth`, or its link type if it has no kind.
        kind: String,
    },
    /// The parent of an IPoIB child exists, but its port has no valid P_Key yet (0x8000 or none).
    #[error("interface {interface} has no P_Key yet")]
    NoPKey {
        /// Requested name or altname of the parent.
        interface: String,
    },
    /// A file or directory could not be read or changed.
    #[error("cannot {doing} {}", path.display())]
    File {
        /// The failed action, such as "read" or "list".
        doing: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// A file has unexpected content.
    #[error("{} has unexpected content", path.display())]
    MalformedFile { path: PathBuf, source: MalformedValue },
    /// A file does not contain the expected number.
    #[error("{} contains {text:?}, which is not a number", path.display())]
    NotANumber {
        path: PathBuf,
        /// The unexpected content of the file.
        text: String,
    },
}

impl Error {
    /// The kernel's errno, or the errno that corresponds to the variant. `None` if a reply or file has unexpected
    /// content.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Netns { errno, .. }
            | Self::InterfaceRequest { errno, .. }
            | Self::DeviceRequest { errno, .. } => Some(*errno),
            Self::Socket { source, .. } | Self::File { source, .. } => {
                source.raw_os_error().map(Errno::from_raw)
            }
            Self::NoNetns { .. } => Some(Errno::ENOENT),
            Self::NoParent { .. } | Self::NoRdmaDevice { .. } => Some(Errno::ENODEV),
            Self::NoRdma => Some(Errno::EPROTONOSUPPORT),
            Self::NameTaken { .. } => Some(Errno::EEXIST),
            Self::NotNetns { .. }
            | Self::NotIpoib { .. }
            | Self::NoPKey { .. }
            | Self::Undecodable { .. }
            | Self::MalformedFile { .. }
            | Self::NotANumber { .. } => None,
        }
    }
}

pub(crate) fn explanation(message: Option<&str>) -> String {
    message.map(|message| format!(" ({message})")).unwrap_or_default()
}
