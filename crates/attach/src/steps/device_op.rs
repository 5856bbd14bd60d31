//! Device operations that must not be interrupted: rebinding a driver and moving an RDMA device.
//!
//! A fatal signal during either leaves the kernel in a broken state: a function without a driver, or a device without
//! its MAD layer (with a fatal signal pending the kernel starts no worker threads). A runtime kills a plugin that takes
//! too long, so a plugin does neither itself.
//!
//! ```text
//! CNI call ── DaemonRequest::DeviceOp, with the device's lock ──▶ node daemon
//!      └───── daemon unavailable: a helper process in its own process group, which inherits the lock
//! ```
//!
//! The process that performs the operation holds a copy of the device's lock. If the CNI call is killed, the lock stays
//! held, so a following DEL waits for the end of the operation instead of seeing an intermediate state.

use crate::ipc::message::{DaemonReply, DaemonRequest, DeviceOp};
use crate::ipc::node_client::NodeClient;
use crate::protocol::{CniContext, ConfigError, Error, FailPoint};
use crate::state::Lock;
use ferroband_kernel::{Hardware, Netns, Root};
use ferroband_model::Fault;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// First argument of a helper process. The second argument is the operation as JSON.
pub const HELPER_FLAG: &str = "--unbroken";
/// How long a device operation waits for another one on the same node to finish.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);

impl DeviceOp {
    /// Perform the operation in this process, which must be in the host's network namespace. Only one
    /// operation runs at a time on a node: each recreates devices, and two at once could swap the numbered
    /// names that the kernel assigns.
    pub fn perform(
        &self,
        root: &Root,
        hardware: &dyn Hardware,
        sandbox: Option<&Netns>,
    ) -> Result<(), Error> {
        let lock = Lock::acquire_stem(root, "unbroken", LOCK_TIMEOUT)?;
        let done = self.perform_locked(hardware, sandbox);
        lock.release_and_remove();
        done
    }

    fn perform_locked(&self, hardware: &dyn Hardware, sandbox: Option<&Netns>) -> Result<(), Error> {
        let missing = || Error::UnexpectedReply { expected: "a sandbox for the device move" };
        match self {
            Self::Rebind { function } => {
                hardware.unbind_driver(*function)?;
                hardware.probe_driver(*function)?;
            }
            Self::MoveToPod { device } => {
                hardware.move_rdma_device(device, None, sandbox.ok_or_else(missing)?)?;
            }
            Self::MoveToHost { device } => {
                let sandbox = sandbox.ok_or_else(missing)?;
                hardware.move_rdma_device(device, Some(sandbox), &Netns::current()?)?;
            }
        }
        Ok(())
    }

    /// Entry point of a helper process started with [`HELPER_FLAG`]. The next argument is the operation, and
    /// standard input is the sandbox's network namespace.
    pub fn perform_as_helper(
        operation: &str,
        root: &Root,
        hardware: &dyn Hardware,
        stdin: OwnedFd,
    ) -> Result<(), Error> {
        let operation: Self =
            serde_json::from_str(operation).map_err(|source| ConfigError::InvalidJson { source })?;
        operation.perform(root, hardware, Netns::from_fd(stdin).ok().as_ref())
    }

    /// Send the operation to the daemon, over `daemon` or a new connection. If the daemon is unavailable, run
    /// a helper process.
    pub(crate) fn delegate(
        &self,
        context: &CniContext<'_>,
        daemon: Option<&mut NodeClient>,
        sandbox: Option<&Netns>,
        lock: &Lock,
    ) -> Result<(), Error> {
        let result = match daemon.filter(|daemon| daemon.is_usable()) {
            Some(daemon) => self.request(context, daemon, sandbox, lock),
            None => NodeClient::connect(context, Duration::ZERO)
                .and_then(|mut daemon| self.request(context, &mut daemon, sandbox, lock)),
        };
        match result {
            Err(Error::DaemonUnavailable { .. } | Error::Channel { .. }) => {
                self.perform_without_daemon(context, sandbox, lock)?;
            }
            other => other?,
        }
        (context.fail_point)(FailPoint::DeviceOpDone);
        Ok(())
    }

    fn request(
        &self,
        context: &CniContext<'_>,
        daemon: &mut NodeClient,
        sandbox: Option<&Netns>,
        lock: &Lock,
    ) -> Result<(), Error> {
        let mut fds = vec![lock.fd()];
        fds.extend(sandbox.map(Netns::fd));
        match daemon.request_with_fds(context, &DaemonRequest::DeviceOp(self.clone()), &fds)? {
            DaemonReply::Done => Ok(()),
            _ => Err(Error::UnexpectedReply { expected: "done" }),
        }
    }

    fn perform_without_daemon(
        &self,
        context: &CniContext<'_>,
        sandbox: Option<&Netns>,
        lock: &Lock,
    ) -> Result<(), Error> {
        match context.helper_program {
            Some(program) => self.run_helper(program, sandbox, lock),
            None => self.perform(context.root, context.require_hardware()?, sandbox),
        }
    }

    fn run_helper(&self, program: &Path, sandbox: Option<&Netns>, lock: &Lock) -> Result<(), Error> {
        let failed = |source| Error::Exec { file: program.to_owned(), source };
        let operation = serde_json::to_string(self).map_err(|error| failed(error.into()))?;
        let stdin = match sandbox {
            Some(sandbox) => Stdio::from(sandbox.fd().as_fd().try_clone_to_owned().map_err(failed)?),
            None => Stdio::null(),
        };
        let mut command = Command::new(program);
        // Use a separate process group, so that signals to the caller's group do not reach the helper.
        command.args([HELPER_FLAG, &operation]).process_group(0).stdin(stdin).stdout(Stdio::piped());
        let guard = lock.inherit_to_children();
        let child = command.spawn();
        drop(guard);
        let output = child.and_then(|child| child.wait_with_output()).map_err(failed)?;
        if output.status.success() {
            return Ok(());
        }
        match serde_json::from_slice::<Fault>(&output.stdout) {
            Ok(fault) => Err(Error::Reported(fault)),
            Err(_) => Err(failed(std::io::Error::other(output.status.to_string()))),
        }
    }
}

/// The error's fault as JSON, printed by a helper process and parsed by its caller.
pub fn fault_json(error: &Error) -> String {
    // Serializing strings cannot fail.
    serde_json::to_string(&error.fault()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_serialized_losslessly() {
        let operations = [
            DeviceOp::Rebind { function: "0000:86:00.2".parse().unwrap() },
            DeviceOp::MoveToPod { device: "mlx5_4".into() },
            DeviceOp::MoveToHost { device: "mlx5_4".into() },
        ];
        for operation in operations {
            let text = serde_json::to_string(&operation).unwrap();
            assert_eq!(serde_json::from_str::<DeviceOp>(&text).unwrap(), operation);
        }
    }
}
