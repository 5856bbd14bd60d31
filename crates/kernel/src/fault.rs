//! Conversion of kernel errors to user-facing faults.

use crate::Error;
use crate::error::explanation;
use ferroband_model::{Fault, FaultCode};
use nix::errno::Errno;
use std::error::Error as _;

impl Error {
    /// Converts the error to a fault, which has a code and a remedy for users.
    pub fn fault(&self) -> Fault {
        match self {
            Self::NoNetns { path } => Fault::new(
                FaultCode::BadNamespace,
                format!("network namespace {}", path.display()),
                "it does not exist",
                "let the container runtime create a new sandbox",
            ),
            Self::NotNetns { path } => Fault::new(
                FaultCode::BadNamespace,
                format!("network namespace {}", path.display()),
                "the file is not a network namespace",
                "remove the file if it was left by a reboot, and let the container runtime create a new sandbox",
            ),
            Self::Netns { doing, path, errno } => Fault::new(
                FaultCode::BadNamespace,
                format!("network namespace {}", path.display()),
                format!("cannot {doing} it: {errno}"),
                "run Ferroband as root in the host's namespaces",
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
                "another interface of the namespace has that name",
                "choose another name, or remove the other interface",
            ),
            Self::NoParent { interface } => Fault::new(
                FaultCode::NoParent,
                format!("interface {interface}"),
                "no interface of this node has that name or altname",
                "set master to an IPoIB interface of the node, or load ib_ipoib and bring the port up",
            ),
            Self::NotIpoib { interface, kind } => Fault::new(
                FaultCode::NotIpoib,
                format!("interface {interface}"),
                format!("its kind is {kind}, not ipoib"),
                "set master to an IPoIB interface of the node",
            ),
            Self::NoPKey { interface } => Fault::new(
                FaultCode::PortNotReady,
                format!("interface {interface}"),
                "its port has no P_Key yet",
                "check that the port is active and a subnet manager runs on its fabric",
            ),
            Self::NoRdma => Fault::new(
                FaultCode::NoRdma,
                "RDMA",
                "the kernel of this node has no RDMA support",
                "load the kernel module ib_core and the driver of the RDMA adapter",
            ),
            Self::NoRdmaDevice { device } => Fault::new(
                FaultCode::NoDevice,
                format!("RDMA device {device}"),
                "the device does not exist in the network namespace",
                "check whether the device was unplugged, renamed or moved",
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
                "check the kernel log of the node",
            ),
            Self::File { path, .. } | Self::MalformedFile { path, .. } | Self::NotANumber { path, .. } => {
                Fault::new(
                    FaultCode::KernelRefused,
                    format!("file {}", path.display()),
                    self.with_source(),
                    "check that the node's file systems are mounted at the expected paths",
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
        Errno::EPERM | Errno::EACCES => "run Ferroband as root in the host's namespaces",
        Errno::EEXIST => "remove the interface, address, route or rule that already exists",
        Errno::EOPNOTSUPP => "load the kernel module for this kind of interface",
        Errno::ENODEV => "check whether the interface was removed or moved, or its device unplugged",
        _ => "check the kernel log of the node",
    }
}

fn device_remedy(errno: Errno) -> &'static str {
    match errno {
        Errno::EPERM | Errno::EACCES => "run Ferroband as root in the host's namespaces",
        Errno::EBUSY => {
            "wait until the device is unused; to change the number of virtual functions, set it to 0 first"
        }
        Errno::EOPNOTSUPP => {
            "check that the driver supports the request and that the RDMA namespace mode is exclusive"
        }
        Errno::ERANGE => "request no more virtual functions than the firmware supports",
        Errno::ENODEV | Errno::ENOENT => "check whether the device was unplugged or has no driver",
        _ => "check the kernel log of the node",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn rejected_request_shows_interface_errno_and_explanation() {
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
    fn name_conflict_has_its_own_code() {
        let error = Error::NameTaken { interface: "net1".into() };
        assert_eq!((error.fault().code, error.errno()), (FaultCode::NameTaken, Some(Errno::EEXIST)));
    }

    #[test]
    fn fault_contains_the_source_error() {
        let error = Error::File {
            doing: "read",
            path: "/sys/x".into(),
            source: io::Error::from_raw_os_error(Errno::EIO as i32),
        };
        assert_eq!(error.errno(), Some(Errno::EIO));
        assert!(error.fault().cause.contains("os error 5"), "{}", error.fault());
    }
}
