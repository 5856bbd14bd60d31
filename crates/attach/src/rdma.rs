//! RDMA devices of sandboxes: what the plugin `rdma` does after the one that made the interface.
//!
//! Moving an RDMA device takes its IPoIB interface away and makes a new one. Upstream's plugin leaves it at that, so
//! that after `ib-sriov` the pod has no interface; we put the new one in the place of the old.

use crate::daemon::Daemon;
use crate::journal::RdmaTrace;
use crate::vf::{self, Function};
use crate::{CniResult, Error, Lock, Machine, Unbroken, address};
use ferroband_kernel::sysfs::infiniband;
use ferroband_kernel::{Error as KernelError, Hardware, Netns, NetnsMode, RdmaLink, Route};
use ferroband_model::PciAddress;
use std::fs;
use std::time::{Duration, Instant};

/// A device to be moved into the sandbox.
#[derive(Debug)]
pub(crate) struct Lending {
    device: String,
    /// The device it is on, as [`RdmaTrace`] has it.
    on: String,
    function: Option<PciAddress>,
}

impl Lending {
    /// The device that is asked for, or the one behind the interface of `previous`.
    pub(crate) fn of(
        machine: &Machine<'_>,
        previous: &CniResult,
        asked: Option<&str>,
    ) -> Result<Self, Error> {
        let hardware = machine.adapters()?;
        let on = match asked {
            Some(asked) => asked.to_owned(),
            None => derive(hardware, previous)?.to_string(),
        };
        hardware.refresh()?;
        let function = on.parse::<PciAddress>().ok();
        let mut devices = match function {
            Some(function) => infiniband::of_function(hardware.root(), function)?,
            None => auxiliary(hardware, &on),
        };
        match (devices.pop(), devices.len()) {
            (Some(device), 0) => Ok(Self { device, on, function }),
            (last, others) => {
                Err(Error::RdmaDevices { device: on, count: others + usize::from(last.is_some()) })
            }
        }
    }

    /// What a journal keeps of it.
    pub(crate) fn trace(&self) -> RdmaTrace {
        RdmaTrace { device: self.device.clone(), on: self.on.clone() }
    }

    /// Move it. An interface of its function in the sandbox, `ifname`, is there again afterwards with what `previous`
    /// says of it.
    pub(crate) fn run(
        self,
        machine: &Machine<'_>,
        netns: &Netns,
        inside: &mut Route,
        daemon: Option<&mut Daemon>,
        (ifname, previous): (&str, &CniResult),
    ) -> Result<(), Error> {
        let hardware = machine.adapters()?;
        let lock = lock(machine, &self.on)?;
        let had = match self.function {
            Some(function) => vf::interface_inside(hardware, function, netns)?,
            None => None,
        };
        Unbroken::Lend { device: self.device }.have_done(machine, daemon, Some(netns), &lock)?;
        if let (Some(function), Some(had)) = (self.function, had) {
            vf::place_again(machine, hardware, function, netns, inside, &had)?;
            if had.name == ifname {
                address::configure(machine, netns, inside, &[(ifname, previous)])?;
            }
        }
        lock.retire();
        Ok(())
    }
}

/// Have the device of `trace` back.
pub(crate) fn undo(
    machine: &Machine<'_>,
    netns: Option<&Netns>,
    trace: &RdmaTrace,
    daemon: Option<&mut Daemon>,
) -> Result<(), Error> {
    let lock = lock(machine, &trace.on)?;
    let function = trace.on.parse().ok();
    take_back(machine, machine.adapters()?, netns, function, &trace.device, daemon, &lock)?;
    lock.retire();
    Ok(())
}

/// Fail if the device of `trace` is not in the sandbox.
pub(crate) fn check(machine: &Machine<'_>, netns: &Netns, trace: Option<&RdmaTrace>) -> Result<(), Error> {
    let Some(trace) = trace else { return Ok(()) };
    match listed(machine.adapters()?, Some(netns))?.iter().any(|one| one.name == trace.device) {
        true => Ok(()),
        false => Err(Error::Kernel(KernelError::NoRdmaDevice { device: trace.device.clone() })),
    }
}

/// Refuse a node on which RDMA devices cannot be moved.
pub(crate) fn check_mode(machine: &Machine<'_>) -> Result<(), Error> {
    match machine.adapters()?.rdma_netns_mode()? {
        NetnsMode::Exclusive => Ok(()),
        NetnsMode::Shared => Err(Error::SharedRdma),
    }
}

fn lock(machine: &Machine<'_>, on: &str) -> Result<Lock, Error> {
    Lock::take_stem(machine.root, &format!("device:{}", on.replace('/', "-")), machine.patience.lock)
}

/// The RDMA devices of an auxiliary device, which is what a sub-function is.
fn auxiliary(hardware: &dyn Hardware, name: &str) -> Vec<String> {
    // Anything else would be a path.
    if name.contains('/') || name.starts_with('.') {
        return Vec::new();
    }
    let folder = hardware.root().sys("bus/auxiliary/devices").join(name).join("infiniband");
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// The function whose administrative address the only interface of `previous` has.
fn derive(hardware: &dyn Hardware, previous: &CniResult) -> Result<PciAddress, Error> {
    let unknown = |mac: &str, count| Error::Underivable { mac: mac.to_owned(), count };
    let [interface] = previous.interfaces.as_slice() else { return Err(unknown("", 0)) };
    let mac = interface.mac.to_ascii_lowercase();
    let mut found = Vec::new();
    for function in ferroband_kernel::sysfs::pci::functions(hardware.root())? {
        if function.virtual_functions.is_empty() {
            continue;
        }
        // One without an interface here cannot say.
        for vf in hardware.vfs(function.address).unwrap_or_default() {
            let same = vf.mac.is_some_and(|bytes| crate::ipoib::text(&bytes) == mac);
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
pub(crate) fn take_back(
    machine: &Machine<'_>,
    hardware: &dyn Hardware,
    netns: Option<&Netns>,
    function: Option<PciAddress>,
    device: &str,
    daemon: Option<&mut Daemon>,
    lock: &Lock,
) -> Result<(), Error> {
    let Some(netns) = netns else { return wait_for(machine, hardware, function, device) };
    let named = |devices: Vec<RdmaLink>| devices.into_iter().any(|one| one.name == device);
    let name = match named(listed(hardware, Some(netns))?) {
        true => Some(device.to_owned()),
        false => function.map(|function| renamed(hardware, netns, function)).transpose()?.flatten(),
    };
    match name {
        Some(device) => Unbroken::TakeBack { device }.have_done(machine, daemon, Some(netns), lock),
        // Already back; never moved; or gone with its function.
        None => Ok(()),
    }
}

/// With the end of a namespace the kernel brings its devices back, in its own time.
fn wait_for(
    machine: &Machine<'_>,
    hardware: &dyn Hardware,
    function: Option<PciAddress>,
    device: &str,
) -> Result<(), Error> {
    let end = Instant::now() + machine.patience.device;
    loop {
        let back = match function {
            Some(function) => match Function::look(hardware, function)? {
                Some(function) => function.driver.is_none() || !function.rdma.is_empty(),
                None => true,
            },
            None => listed(hardware, None)?.iter().any(|one| one.name == device),
        };
        if back || Instant::now() >= end {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
    }
}

/// The name of the function's device in the sandbox, by its sysfs: whoever is there may rename it.
fn renamed(hardware: &dyn Hardware, netns: &Netns, function: PciAddress) -> Result<Option<String>, Error> {
    if hardware.rdma_netns_mode()? == NetnsMode::Shared {
        return Ok(None);
    }
    let mut found = None;
    hardware.look_inside(netns, &mut |root| {
        found = infiniband::of_function(root, function).ok().and_then(|names| names.into_iter().next());
    })?;
    Ok(found)
}

fn listed(hardware: &dyn Hardware, netns: Option<&Netns>) -> Result<Vec<RdmaLink>, Error> {
    match hardware.rdma_devices(netns) {
        Err(KernelError::NoRdma) => Ok(Vec::new()),
        other => Ok(other?),
    }
}
