//! RDMA devices of sandboxes: what the plugin `rdma` does after the one that made the interface.
//!
//! Moving an RDMA device takes its IPoIB interface away and makes a new one. Upstream's plugin leaves it at that, so
//! that after `ib-sriov` the pod has no interface; we put the new one in the place of the old.

use crate::daemon::NodeClient;
use crate::journal::MovedRdmaDevice;
use crate::vf::{self, ObservedVf};
use crate::{CniContext, CniResult, DeviceOp, Error, Lock, address};
use ferroband_kernel::sysfs::infiniband;
use ferroband_kernel::{Error as KernelError, Hardware, Netns, NetnsMode, RdmaDeviceInfo, RouteSocket};
use ferroband_model::PciAddress;
use std::fs;
use std::time::{Duration, Instant};

/// A device to be moved into the sandbox.
#[derive(Debug)]
pub(crate) struct RdmaMove {
    device: String,
    /// The device it is on, as [`RdmaTrace`] has it.
    parent: String,
    function: Option<PciAddress>,
}

impl RdmaMove {
    /// The device that is asked for, or the one behind the interface of `previous`.
    pub(crate) fn resolve(
        machine: &CniContext<'_>,
        previous: &CniResult,
        asked: Option<&str>,
    ) -> Result<Self, Error> {
        let hardware = machine.require_hardware()?;
        let on = match asked {
            Some(asked) => asked.to_owned(),
            None => derive_function(hardware, previous)?.to_string(),
        };
        hardware.refresh()?;
        let function = on.parse::<PciAddress>().ok();
        let mut devices = match function {
            Some(function) => infiniband::device_names_of_function(hardware.root(), function)?,
            None => auxiliary_rdma_devices(hardware, &on),
        };
        match (devices.pop(), devices.len()) {
            (Some(device), 0) => Ok(Self { device, parent: on, function }),
            (last, others) => {
                Err(Error::RdmaDevices { device: on, count: others + usize::from(last.is_some()) })
            }
        }
    }

    /// What a journal keeps of it.
    pub(crate) fn record(&self) -> MovedRdmaDevice {
        MovedRdmaDevice { device: self.device.clone(), parent: self.parent.clone() }
    }

    /// Move it. An interface of its function in the sandbox, `ifname`, is there again afterwards with what `previous`
    /// says of it.
    pub(crate) fn run(
        self,
        machine: &CniContext<'_>,
        netns: &Netns,
        inside: &mut RouteSocket,
        daemon: Option<&mut NodeClient>,
        (ifname, previous): (&str, &CniResult),
    ) -> Result<(), Error> {
        let hardware = machine.require_hardware()?;
        let lock = lock_device(machine, &self.parent)?;
        let had = match self.function {
            Some(function) => vf::interface_inside(hardware, function, netns)?,
            None => None,
        };
        DeviceOp::MoveToPod { device: self.device }.delegate(machine, daemon, Some(netns), &lock)?;
        if let (Some(function), Some(had)) = (self.function, had) {
            vf::reinstall_interface(machine, hardware, function, netns, inside, &had)?;
            if had.name == ifname {
                address::configure(machine, netns, inside, &[(ifname, previous)])?;
            }
        }
        lock.release_and_remove();
        Ok(())
    }
}

/// Have the device of `trace` back.
pub(crate) fn undo(
    machine: &CniContext<'_>,
    netns: Option<&Netns>,
    trace: &MovedRdmaDevice,
    daemon: Option<&mut NodeClient>,
) -> Result<(), Error> {
    let lock = lock_device(machine, &trace.parent)?;
    let function = trace.parent.parse().ok();
    move_to_host(machine, machine.require_hardware()?, netns, function, &trace.device, daemon, &lock)?;
    lock.release_and_remove();
    Ok(())
}

/// Fail if the device of `trace` is not in the sandbox.
pub(crate) fn check(
    machine: &CniContext<'_>,
    netns: &Netns,
    trace: Option<&MovedRdmaDevice>,
) -> Result<(), Error> {
    let Some(trace) = trace else { return Ok(()) };
    match list_devices(machine.require_hardware()?, Some(netns))?.iter().any(|one| one.name == trace.device) {
        true => Ok(()),
        false => Err(Error::Kernel(KernelError::NoRdmaDevice { device: trace.device.clone() })),
    }
}

/// Refuse a node on which RDMA devices cannot be moved.
pub(crate) fn require_exclusive_mode(machine: &CniContext<'_>) -> Result<(), Error> {
    match machine.require_hardware()?.rdma_netns_mode()? {
        NetnsMode::Exclusive => Ok(()),
        NetnsMode::Shared => Err(Error::SharedRdma),
    }
}

fn lock_device(machine: &CniContext<'_>, on: &str) -> Result<Lock, Error> {
    Lock::acquire_stem(machine.root, &format!("device:{}", on.replace('/', "-")), machine.timeouts.lock)
}

/// The RDMA devices of an auxiliary device, which is what a sub-function is.
fn auxiliary_rdma_devices(hardware: &dyn Hardware, name: &str) -> Vec<String> {
    // Anything else would be a path.
    if name.contains('/') || name.starts_with('.') {
        return Vec::new();
    }
    let folder = hardware.root().sys("bus/auxiliary/devices").join(name).join("infiniband");
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// The function whose administrative address the only interface of `previous` has.
fn derive_function(hardware: &dyn Hardware, previous: &CniResult) -> Result<PciAddress, Error> {
    let unknown = |mac: &str, count| Error::AmbiguousDevice { mac: mac.to_owned(), count };
    let [interface] = previous.interfaces.as_slice() else { return Err(unknown("", 0)) };
    let mac = interface.mac.to_ascii_lowercase();
    let mut found = Vec::new();
    for function in ferroband_kernel::sysfs::pci::functions(hardware.root())? {
        if function.virtual_functions.is_empty() {
            continue;
        }
        // One without an interface here cannot say.
        for vf in hardware.vfs(function.address).unwrap_or_default() {
            let same = vf.mac.is_some_and(|bytes| crate::ipoib::format_address(&bytes) == mac);
            let position = usize::try_from(vf.index).unwrap_or(usize::MAX);
            found.extend(function.virtual_functions.get(position).copied().filter(|_| same));
        }
    }
    match found.as_slice() {
        [only] => Ok(*only),
        others => Err(unknown(&mac, others.len())),
    }
}

/// How often a device that is to come back is looked for.
const PAUSE: Duration = Duration::from_millis(20);

/// Have the RDMA device back in the host. It may have come back by itself, with the end of the sandbox, and it may have
/// another name now.
pub(crate) fn move_to_host(
    machine: &CniContext<'_>,
    hardware: &dyn Hardware,
    netns: Option<&Netns>,
    function: Option<PciAddress>,
    device: &str,
    daemon: Option<&mut NodeClient>,
    lock: &Lock,
) -> Result<(), Error> {
    let Some(netns) = netns else { return wait_until_returned(machine, hardware, function, device) };
    let named = |devices: Vec<RdmaDeviceInfo>| devices.into_iter().any(|one| one.name == device);
    let name = match named(list_devices(hardware, Some(netns))?) {
        true => Some(device.to_owned()),
        false => function.map(|function| current_name(hardware, netns, function)).transpose()?.flatten(),
    };
    match name {
        Some(device) => DeviceOp::MoveToHost { device }.delegate(machine, daemon, Some(netns), lock),
        // Already back; never moved; or gone with its function.
        None => Ok(()),
    }
}

/// With the end of a namespace the kernel brings its devices back, in its own time.
fn wait_until_returned(
    machine: &CniContext<'_>,
    hardware: &dyn Hardware,
    function: Option<PciAddress>,
    device: &str,
) -> Result<(), Error> {
    let end = Instant::now() + machine.timeouts.device_ready;
    loop {
        let back = match function {
            Some(function) => match ObservedVf::find(hardware, function)? {
                Some(function) => function.driver.is_none() || !function.rdma_devices.is_empty(),
                None => true,
            },
            None => list_devices(hardware, None)?.iter().any(|one| one.name == device),
        };
        if back || Instant::now() >= end {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
    }
}

/// The name of the function's device in the sandbox, by its sysfs: whoever is there may rename it.
fn current_name(
    hardware: &dyn Hardware,
    netns: &Netns,
    function: PciAddress,
) -> Result<Option<String>, Error> {
    if hardware.rdma_netns_mode()? == NetnsMode::Shared {
        return Ok(None);
    }
    let mut found = None;
    hardware.with_netns_sysfs(netns, &mut |root| {
        found = infiniband::device_names_of_function(root, function)
            .ok()
            .and_then(|names| names.into_iter().next());
    })?;
    Ok(found)
}

fn list_devices(hardware: &dyn Hardware, netns: Option<&Netns>) -> Result<Vec<RdmaDeviceInfo>, Error> {
    match hardware.rdma_devices(netns) {
        Err(KernelError::NoRdma) => Ok(Vec::new()),
        other => Ok(other?),
    }
}
