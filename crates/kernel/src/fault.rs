//! What the kernel would not do, as people are told it.

use crate::Error;
use crate::error::explanation;
use ferroband_model::{Fault, FaultCode};
use nix::errno::Errno;
use std::error::Error as _;

impl Error {
    /// The same, as it is told to people.
    pub fn fault(&self) -> Fault {
        match self {
            Self::NoNetns { path } => Fault::new(
                FaultCode::BadNamespace,
                format!("network namespace {}", path.display()),
                "it does not exist",
                "let the runtime make a new sandbox",
            ),
            Self::NotNetns { path } => Fault::new(
                FaultCode::BadNamespace,
                format!("network namespace {}", path.display()),
                "the file there is not a network namespace",
                "remove it if it was left behind by a reboot; let the runtime make a new sandbox",
            ),
            Self::Netns { doing, path, errno } => Fault::new(
                FaultCode::BadNamespace,
                format!("network namespace {}", path.display()),
                format!("cannot {doing} it: {errno}"),
                "see that the caller is root in the host's namespaces",
            ),
            Self::InterfaceRequest { doing, interface, errno, message } => Fault::new(
                FaultCode::KernelRefused,
                format!("interface {interface}"),
                format!("the kernel refused to {doing} it: {errno}{}", explanation(message.as_deref())),
                remedy(*errno),
            ),
            Self::NameTaken { interface } => Fault::new(
                FaultCode::NameTaken,
                format!("interface {interface}"),
                "there is another interface of that name in the namespace",
                "choose another name, or remove what has it",
            ),
            Self::NoParent { interface } => Fault::new(
                FaultCode::NoParent,
                format!("interface {interface}"),
                "there is no interface of that name or alternative name on this node",
                "name an IPoIB interface of the node as master, or load ib_ipoib and bring the port up",
            ),
            Self::NotIpoib { interface, kind } => Fault::new(
                FaultCode::NotIpoib,
                format!("interface {interface}"),
                format!("its kind is {kind}, not ipoib"),
                "name an IPoIB interface of the node as master",
            ),
            Self::NoPKey { interface } => Fault::new(
                FaultCode::PortNotReady,
                format!("interface {interface}"),
                "its port has no P_Key yet",
                "see that the port is active and a subnet manager runs on its fabric",
            ),
            Self::NoRdma => Fault::new(
                FaultCode::NoRdma,
                "RDMA",
                "the kernel of this node has none",
                "load ib_core and the driver of the adapter",
            ),
            Self::NoRdmaDevice { device } => Fault::new(
                FaultCode::NoDevice,
                format!("RDMA device {device}"),
                "there is no such device in the namespace",
                "see whether it was unplugged, renamed or moved",
            ),
            Self::DeviceRequest { doing, device, errno, message } => Fault::new(
                match errno {
                    Errno::EBUSY => FaultCode::DeviceBusy,
                    Errno::ENODEV | Errno::ENOENT => FaultCode::NoDevice,
                    _ => FaultCode::KernelRefused,
                },
                format!("device {device}"),
                format!("the kernel refused to {doing} it: {errno}{}", explanation(message.as_deref())),
                device_remedy(*errno),
            ),
            Self::Socket { .. } | Self::Undecodable { .. } => Fault::new(
                FaultCode::KernelRefused,
                "netlink",
                self.with_source(),
                "see the kernel's log of the node",
            ),
            Self::File { path, .. } | Self::MalformedFile { path, .. } | Self::NotANumber { path, .. } => {
                Fault::new(
                    FaultCode::KernelRefused,
                    format!("file {}", path.display()),
                    self.with_source(),
                    "see that the node's file systems are mounted where Ferroband looks",
                )
            }
        }
    }

    fn with_source(&self) -> String {
        match self.source() {
            Some(source) => format!("{self}: {source}"),
            None => self.to_string(),
        }
    }
}

fn remedy(errno: Errno) -> &'static str {
    match errno {
        Errno::EPERM | Errno::EACCES => "run as root in the host's namespaces",
        Errno::EEXIST => "remove what is there",
        Errno::EOPNOTSUPP => "load the kernel module of this kind of interface",
        Errno::ENODEV => "see whether the device was unplugged or moved",
        _ => "see the kernel's log of the node",
    }
}

fn device_remedy(errno: Errno) -> &'static str {
    match errno {
        Errno::EPERM | Errno::EACCES => "run as root in the host's namespaces",
        Errno::EBUSY => "wait until nobody uses it; virtual functions change in number only by way of 0",
        Errno::EOPNOTSUPP => "see that the driver can do this, and that RDMA namespaces are exclusive",
        Errno::ERANGE => "ask for no more virtual functions than the firmware has",
        Errno::ENODEV | Errno::ENOENT => "see whether the device was unplugged or has no driver",
        _ => "see the kernel's log of the node",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn a_refusal_names_interface_errno_and_words() {
        let error = Error::InterfaceRequest {
            doing: "create".into(),
            interface: "net1".into(),
            errno: Errno::EOPNOTSUPP,
            message: Some("Unknown device type".into()),
        };
        assert_eq!(
            error.to_string(),
            "cannot create interface net1: EOPNOTSUPP: Operation not supported on transport endpoint \
             (Unknown device type)"
        );
        let fault = error.fault();
        assert_eq!((fault.code, fault.what.as_str()), (FaultCode::KernelRefused, "interface net1"));
        assert!(fault.cause.contains("Unknown device type"), "{fault}");
    }

    #[test]
    fn a_taken_name_has_its_own_code() {
        let error = Error::NameTaken { interface: "net1".into() };
        assert_eq!((error.fault().code, error.errno()), (FaultCode::NameTaken, Some(Errno::EEXIST)));
    }

    #[test]
    fn the_source_reaches_the_reader() {
        let error = Error::File {
            doing: "read",
            path: "/sys/x".into(),
            source: io::Error::from_raw_os_error(Errno::EIO as i32),
        };
        assert_eq!(error.errno(), Some(Errno::EIO));
        assert!(error.fault().cause.contains("os error 5"), "{}", error.fault());
    }
}
