//! The `rdma` plugin: moves RDMA devices into sandboxes, chained after the plugin that creates the interface.
//!
//! Moving an RDMA device destroys its IPoIB interface and creates a new one. Upstream's plugin does nothing about that,
//! so after `ib-sriov` the pod has no interface. Ferroband configures the new interface like the old one.

use crate::ipc::message::DeviceOp;
use crate::ipc::node_client::NodeClient;
use crate::protocol::{CniContext, CniResult, Error};
use crate::state::Lock;
use crate::state::journal::MovedRdmaDevice;
use crate::steps::apply::addresses;
use crate::steps::vf::{self, ObservedVf};
use ferroband_kernel::sysfs::infiniband;
use ferroband_kernel::{Error as KernelError, Hardware, Netns, NetnsMode, RdmaDeviceInfo, RouteSocket};
use ferroband_model::PciAddress;
use std::fs;
use std::time::{Duration, Instant};

/// An RDMA device to move into the sandbox.
#[derive(Debug)]
pub(crate) struct RdmaMove {
    device: String,
    /// PCI address or auxiliary device name of the parent device, as in [`MovedRdmaDevice`].
    parent: String,
    function: Option<PciAddress>,
}

impl RdmaMove {
    /// Find the device to move: that of `requested`, or that of the only interface in `previous`. Fails
    /// unless there is exactly one.
    pub(crate) fn resolve(
        context: &CniContext<'_>,
        previous: &CniResult,
        requested: Option<&str>,
    ) -> Result<Self, Error> {
        let hardware = context.require_hardware()?;
        let parent = match requested {
            Some(requested) => requested.to_owned(),
            None => derive_function(hardware, previous)?.to_string(),
        };
        hardware.refresh()?;
        let function = parent.parse::<PciAddress>().ok();
        let mut devices = match function {
            Some(function) => infiniband::device_names_of_function(hardware.root(), function)?,
            None => auxiliary_rdma_devices(hardware, &parent),
        };
        match (devices.pop(), devices.len()) {
            (Some(device), 0) => Ok(Self { device, parent, function }),
            (last, others) => {
                Err(Error::RdmaDevices { device: parent, count: others + usize::from(last.is_some()) })
            }
        }
    }

    /// The device as recorded in the journal, so that DEL can move it back.
    pub(crate) fn record(&self) -> MovedRdmaDevice {
        MovedRdmaDevice { device: self.device.clone(), parent: self.parent.clone() }
    }

    /// Move the device. If its function has the interface `ifname` in the sandbox, the interface is configured again
    /// as in `previous`.
    pub(crate) fn run(
        self,
        context: &CniContext<'_>,
        netns: &Netns,
        pod_netlink: &mut RouteSocket,
        daemon: Option<&mut NodeClient>,
        (ifname, previous): (&str, &CniResult),
    ) -> Result<(), Error> {
        let hardware = context.require_hardware()?;
        let lock = lock_device(context, &self.parent)?;
        let old = match self.function {
            Some(function) => vf::find_interface(hardware, function, Some(netns))?,
            None => None,
        };
        DeviceOp::MoveToPod { device: self.device }.delegate(context, daemon, Some(netns), &lock)?;
        if let (Some(function), Some(old)) = (self.function, old) {
            vf::reinstall_interface(context, hardware, function, netns, pod_netlink, &old)?;
            if old.name == ifname {
                addresses::configure(context, netns, pod_netlink, &[(ifname, previous)])?;
            }
        }
        lock.release_and_remove();
        Ok(())
    }
}

/// Move the recorded device back to the host.
pub(crate) fn undo(
    context: &CniContext<'_>,
    netns: Option<&Netns>,
    moved: &MovedRdmaDevice,
    daemon: Option<&mut NodeClient>,
) -> Result<(), Error> {
    let lock = lock_device(context, &moved.parent)?;
    let function = moved.parent.parse().ok();
    move_to_host(context, context.require_hardware()?, netns, function, &moved.device, daemon, &lock)?;
    lock.release_and_remove();
    Ok(())
}

/// Fail if the recorded device is not in the sandbox.
pub(crate) fn check(
    context: &CniContext<'_>,
    netns: &Netns,
    moved: Option<&MovedRdmaDevice>,
) -> Result<(), Error> {
    let Some(moved) = moved else { return Ok(()) };
    match list_devices(context.require_hardware()?, Some(netns))?.iter().any(|one| one.name == moved.device) {
        true => Ok(()),
        false => Err(Error::Kernel(KernelError::NoRdmaDevice { device: moved.device.clone() })),
    }
}

/// Fail if RDMA devices of this node cannot be moved.
pub(crate) fn require_exclusive_mode(context: &CniContext<'_>) -> Result<(), Error> {
    match context.require_hardware()?.rdma_netns_mode()? {
        NetnsMode::Exclusive => Ok(()),
        NetnsMode::Shared => Err(Error::SharedRdma),
    }
}

fn lock_device(context: &CniContext<'_>, parent: &str) -> Result<Lock, Error> {
    Lock::acquire_stem(context.root, &format!("device:{}", parent.replace('/', "-")), context.timeouts.lock)
}

/// RDMA devices of an auxiliary device (a sub-function).
fn auxiliary_rdma_devices(hardware: &dyn Hardware, name: &str) -> Vec<String> {
    // The name comes from the configuration, so it must not lead out of the directory of auxiliary devices.
    if name.contains('/') || name.starts_with('.') {
        return Vec::new();
    }
    let folder = hardware.root().sys("bus/auxiliary/devices").join(name).join("infiniband");
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// The function whose administrative MAC address equals that of the only interface in `previous`.
fn derive_function(hardware: &dyn Hardware, previous: &CniResult) -> Result<PciAddress, Error> {
    let unknown = |mac: &str, count| Error::AmbiguousDevice { mac: mac.to_owned(), count };
    let [interface] = previous.interfaces.as_slice() else { return Err(unknown("", 0)) };
    let mac = interface.mac.to_ascii_lowercase();
    let mut found = Vec::new();
    for function in ferroband_kernel::sysfs::pci::functions(hardware.root())? {
        if function.virtual_functions.is_empty() {
            continue;
        }
        // Ignore a physical function without an interface in this namespace.
        for vf in hardware.vfs(function.address).unwrap_or_default() {
            let same = vf.mac.is_some_and(|bytes| crate::steps::ipoib::format_address(&bytes) == mac);
            let position = usize::try_from(vf.index).unwrap_or(usize::MAX);
            found.extend(function.virtual_functions.get(position).copied().filter(|_| same));
        }
    }
    match found.as_slice() {
        [only] => Ok(*only),
        others => Err(unknown(&mac, others.len())),
    }
}

/// Polling interval while waiting for a device.
const PAUSE: Duration = Duration::from_millis(20);

/// Move the RDMA device back to the host. It may already have returned when the sandbox was deleted, and it may have
/// been renamed.
pub(crate) fn move_to_host(
    context: &CniContext<'_>,
    hardware: &dyn Hardware,
    netns: Option<&Netns>,
    function: Option<PciAddress>,
    device: &str,
    daemon: Option<&mut NodeClient>,
    lock: &Lock,
) -> Result<(), Error> {
    let Some(netns) = netns else { return wait_until_returned(context, hardware, function, device) };
    let named = |devices: Vec<RdmaDeviceInfo>| devices.into_iter().any(|one| one.name == device);
    let name = match named(list_devices(hardware, Some(netns))?) {
        true => Some(device.to_owned()),
        false => function.map(|function| current_name(hardware, netns, function)).transpose()?.flatten(),
    };
    match name {
        Some(device) => DeviceOp::MoveToHost { device }.delegate(context, daemon, Some(netns), lock),
        // The device is already back, was never moved, or is gone with its function.
        None => Ok(()),
    }
}

/// Wait for the kernel to return the devices of a deleted namespace, which it does asynchronously.
fn wait_until_returned(
    context: &CniContext<'_>,
    hardware: &dyn Hardware,
    function: Option<PciAddress>,
    device: &str,
) -> Result<(), Error> {
    let end = Instant::now() + context.timeouts.device_ready;
    loop {
        let returned = match function {
            Some(function) => match ObservedVf::find(hardware, function)? {
                Some(function) => function.driver.is_none() || !function.rdma_devices.is_empty(),
                None => true,
            },
            None => list_devices(hardware, None)?.iter().any(|one| one.name == device),
        };
        if returned || Instant::now() >= end {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
    }
}

/// Current name of the function's RDMA device in the sandbox, read from the sandbox's sysfs, because the pod
/// may have renamed it. `None` if the sandbox has no such device.
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
