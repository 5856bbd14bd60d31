//! Work that must not be broken off: binding a driver, and moving an RDMA device.
//!
//! A fatal signal inside either leaves the kernel half-way for good: a function without a driver, or a device without
//! its MAD layer (with a fatal signal pending the kernel starts no worker threads). A runtime kills a plugin that takes
//! too long, so a plugin does neither itself.
//!
//! ```text
//! CNI call ── Request::Unbroken, with the device's lock ──▶ node daemon
//!      └───── daemon away? a process of its own session, which inherits the lock
//! ```
//!
//! Whoever does it holds a copy of the device's lock. A call that is killed meanwhile leaves it held, so a DEL that
//! follows waits for the end of the work instead of looking at the middle of it.

use crate::daemon::NodeClient;
use crate::message::{DaemonReply, DaemonRequest};
use crate::{CniContext, Error, FailPoint, Lock};
use ferroband_kernel::{Hardware, Netns, Root};
use ferroband_model::{Fault, PciAddress};
use serde::{Deserialize, Serialize};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The argument that a process which is to do such work is started with; the work follows as JSON.
pub const HELPER_FLAG: &str = "--unbroken";
/// How long one such work may take before another one gives up waiting for it.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);

/// One piece of such work. Doing it again does no harm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum DeviceOp {
    /// Take the driver from the function, if it has one, and let its driver find it again.
    Rebind {
        /// The function.
        function: PciAddress,
    },
    /// Move an RDMA device from the host into the sandbox.
    #[serde(rename = "lend")]
    MoveToPod {
        /// Its name.
        device: String,
    },
    /// Move an RDMA device from the sandbox back to the host.
    #[serde(rename = "takeBack")]
    MoveToHost {
        /// Its name.
        device: String,
    },
}

impl DeviceOp {
    /// Do it, here. "Here" must be the host's network namespace. One at a time on a node: each makes devices anew, and
    /// two at once would swap the numbers that the kernel gives them.
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
        let missing = || Error::UnexpectedReply { wanted: "a sandbox to move a device to or from" };
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

    /// What a process does that was started with [`ARGUMENT`]: `work` from its arguments, the sandbox as its standard
    /// input.
    pub fn perform_as_helper(
        work: &str,
        root: &Root,
        hardware: &dyn Hardware,
        stdin: OwnedFd,
    ) -> Result<(), Error> {
        let work: Self = serde_json::from_str(work).map_err(|source| Error::InvalidJson { source })?;
        work.perform(root, hardware, Netns::from_fd(stdin).ok().as_ref())
    }

    /// Have it done: by the daemon that is connected, else by one that can be reached at once, else by a process of
    /// its own.
    pub(crate) fn delegate(
        &self,
        machine: &CniContext<'_>,
        daemon: Option<&mut NodeClient>,
        sandbox: Option<&Netns>,
        lock: &Lock,
    ) -> Result<(), Error> {
        let asked = match daemon.filter(|daemon| daemon.is_usable()) {
            Some(daemon) => self.request(machine, daemon, sandbox, lock),
            None => NodeClient::connect(machine, Duration::ZERO)
                .and_then(|mut daemon| self.request(machine, &mut daemon, sandbox, lock)),
        };
        match asked {
            Err(Error::DaemonUnavailable { .. } | Error::Channel { .. }) => {
                self.perform_without_daemon(machine, sandbox, lock)?;
            }
            other => other?,
        }
        (machine.fail_point)(FailPoint::DeviceOpDone);
        Ok(())
    }

    fn request(
        &self,
        machine: &CniContext<'_>,
        daemon: &mut NodeClient,
        sandbox: Option<&Netns>,
        lock: &Lock,
    ) -> Result<(), Error> {
        let mut fds = vec![lock.fd()];
        fds.extend(sandbox.map(Netns::fd));
        match daemon.request_with_fds(machine, &DaemonRequest::DeviceOp(self.clone()), &fds)? {
            DaemonReply::Done => Ok(()),
            _ => Err(Error::UnexpectedReply { wanted: "done" }),
        }
    }

    fn perform_without_daemon(
        &self,
        machine: &CniContext<'_>,
        sandbox: Option<&Netns>,
        lock: &Lock,
    ) -> Result<(), Error> {
        match machine.helper_program {
            Some(program) => self.run_helper(program, sandbox, lock),
            None => self.perform(machine.root, machine.require_hardware()?, sandbox),
        }
    }

    fn run_helper(&self, program: &Path, sandbox: Option<&Netns>, lock: &Lock) -> Result<(), Error> {
        let failed = |source| Error::Exec { file: program.to_owned(), source };
        let work = serde_json::to_string(self).map_err(|error| failed(error.into()))?;
        let stdin = match sandbox {
            Some(sandbox) => Stdio::from(sandbox.fd().as_fd().try_clone_to_owned().map_err(failed)?),
            None => Stdio::null(),
        };
        let mut command = Command::new(program);
        // Not in our group, so that what is meant for all of us does not reach it.
        command.args([HELPER_FLAG, &work]).process_group(0).stdin(stdin).stdout(Stdio::piped());
        let lent = lock.inherit_to_children();
        let child = command.spawn();
        drop(lent);
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

/// A failure, as the process that waits for it reads it.
pub fn fault_json(error: &Error) -> String {
    // Words have no way to fail.
    serde_json::to_string(&error.fault()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_survives_the_way_to_another_process() {
        let works = [
            DeviceOp::Rebind { function: "0000:86:00.2".parse().unwrap() },
            DeviceOp::MoveToPod { device: "mlx5_4".into() },
            DeviceOp::MoveToHost { device: "mlx5_4".into() },
        ];
        for work in works {
            let text = serde_json::to_string(&work).unwrap();
            assert_eq!(serde_json::from_str::<DeviceOp>(&text).unwrap(), work);
        }
    }
}
