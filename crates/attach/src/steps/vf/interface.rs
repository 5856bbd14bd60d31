//! Finding and moving the interface of a function.

use super::VfLease;
use crate::protocol::{CniContext, Error, FailPoint};
use ferroband_kernel::{Error as KernelError, Hardware, Link, Netns, RouteSocket};
use ferroband_model::PciAddress;
use std::time::{Duration, Instant};

/// Polling interval while waiting for an interface.
const PAUSE: Duration = Duration::from_millis(20);
/// How long to wait while another function's interface has this one's name, temporarily during a rebind or an
/// RDMA device move.
const NAME_WAIT: Duration = Duration::from_secs(5);

/// Temporary name of a function's interface while it is moved: deterministic and unique per function.
pub(super) fn transit_name(function: PciAddress) -> String {
    let (bus, device) = (function.bus(), function.device());
    format!("vfdev{:04x}{bus:02x}{device:02x}{:x}", function.domain(), function.function())
}

/// The function's interface in `netns`, or in the host namespace; the one with the lowest index if there are several.
pub(crate) fn find_interface(
    hardware: &dyn Hardware,
    function: PciAddress,
    netns: Option<&Netns>,
) -> Result<Option<Link>, Error> {
    Ok(hardware.interfaces(function, netns)?.into_iter().min_by_key(|link| link.index))
}

/// The namespace where an interface was found, and the interface.
#[derive(Debug)]
pub(super) enum InterfaceLocation {
    Host(Link),
    Sandbox(Link),
}

/// Wait for the interface to appear in the host namespace or, if `netns` is set, in the sandbox. The driver
/// creates it asynchronously, and udev may rename it afterwards. Returns `None` after a timeout.
pub(super) fn wait_for_interface(
    context: &CniContext<'_>,
    hardware: &dyn Hardware,
    function: PciAddress,
    netns: Option<&Netns>,
) -> Result<Option<InterfaceLocation>, Error> {
    let end = Instant::now() + context.timeouts.device_ready;
    loop {
        if let Some(link) = find_interface(hardware, function, None)? {
            return Ok(Some(InterfaceLocation::Host(link)));
        }
        if netns.is_some()
            && let Some(link) = find_interface(hardware, function, netns)?
        {
            return Ok(Some(InterfaceLocation::Sandbox(link)));
        }
        if Instant::now() >= end {
            return Ok(None);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Bring the interface into the sandbox under `name`, wherever it appears. Returns the link as it was before the
/// rename.
pub(super) fn ensure_in_sandbox(
    (context, hardware): (&CniContext<'_>, &dyn Hardware),
    function: PciAddress,
    netns: &Netns,
    (pod_netlink, name): (&mut RouteSocket, &str),
) -> Result<Link, Error> {
    let found = wait_for_interface(context, hardware, function, Some(netns))?;
    let link = match found.ok_or(Error::NoNetdev { function })? {
        InterfaceLocation::Sandbox(link) => link,
        InterfaceLocation::Host(link) => {
            move_to_sandbox(context, function, &link, netns, (&mut *pod_netlink, name))?
        }
    };
    rename_in_sandbox(pod_netlink, &link, name)?;
    (context.fail_point)(FailPoint::InterfaceRenamed);
    Ok(link)
}

/// Move the interface from the host into the sandbox under `name`, without altnames that are taken there. Returns the
/// link in the sandbox.
fn move_to_sandbox(
    context: &CniContext<'_>,
    function: PciAddress,
    link: &Link,
    netns: &Netns,
    (pod_netlink, name): (&mut RouteSocket, &str),
) -> Result<Link, Error> {
    let mut route = RouteSocket::open()?;
    // The move fails if a name is taken in the sandbox (`__dev_change_net_namespace`) or if an altname equals
    // the interface's own name.
    for altname in &link.altnames {
        if *altname == link.name || *altname == name || pod_netlink.link(altname)?.is_some() {
            route.remove_altname(link.index, altname)?;
        }
    }
    route.move_and_rename(link.index, netns, name)?;
    (context.fail_point)(FailPoint::InterfaceMoved);
    pod_netlink.link(name)?.ok_or(Error::NoNetdev { function })
}

/// Move the interface from the sandbox back to the host under its original name, or under its temporary name while the
/// original is taken.
pub(super) fn move_to_host(
    context: &CniContext<'_>,
    function: PciAddress,
    link: &Link,
    netns: &Netns,
    name: &str,
) -> Result<(), Error> {
    let mut route = RouteSocket::open_in(netns)?;
    let mut host_netlink = RouteSocket::open()?;
    for altname in &link.altnames {
        if altname == name || host_netlink.link(altname)?.is_some() {
            route.remove_altname(link.index, altname)?;
        }
    }
    let (host, transit) = (Netns::current()?, transit_name(function));
    let name = if name.is_empty() { &transit } else { name };
    match route.move_and_rename(link.index, &host, name) {
        // The kernel may have moved the interface despite this error. Move it only if it is still in the
        // sandbox.
        Err(KernelError::NameTaken { .. }) => {
            let still = route.link_by_index(link.index)?.is_some_and(|one| one.address == link.address);
            if still {
                route.move_and_rename(link.index, &host, &transit)?;
            }
        }
        other => other?,
    }
    (context.fail_point)(FailPoint::InterfaceMoved);
    Ok(())
}

/// Rename the interface to `name`, which may currently be one of its altnames.
fn rename_in_sandbox(route: &mut RouteSocket, link: &Link, name: &str) -> Result<(), Error> {
    if link.name == name {
        return Ok(());
    }
    // Before Linux 6.2 an interface that is up cannot be renamed.
    route.set_down(link.index)?;
    if link.altnames.iter().any(|altname| altname == name) {
        route.remove_altname(link.index, name)?;
    }
    Ok(route.rename_link(link.index, name)?)
}

/// Restore the interface's original name, unless another interface keeps it. The kernel gives a new interface
/// the lowest free name, so two functions that are restored at once may hold each other's names. Therefore
/// the interface waits under its temporary name, and an interface that a killed call left under this name is
/// renamed.
pub(super) fn restore_name(
    (context, hardware): (&CniContext<'_>, &dyn Hardware),
    route: &mut RouteSocket,
    function: PciAddress,
    link: &Link,
    name: &str,
) -> Result<(), Error> {
    if name.is_empty() || link.name == name {
        return Ok(());
    }
    if link.altnames.iter().any(|altname| altname == name) {
        route.remove_altname(link.index, name)?;
    }
    let transit = transit_name(function);
    let mut waiting = link.name == transit;
    let end = Instant::now() + NAME_WAIT;
    loop {
        match route.rename_link(link.index, name) {
            Err(KernelError::NameTaken { .. }) if Instant::now() < end => {
                if !waiting {
                    route.rename_link(link.index, &transit)?;
                    waiting = true;
                }
                if !free_name(context, hardware, route, name)? {
                    std::thread::sleep(PAUSE);
                }
            }
            Err(KernelError::NameTaken { .. }) => {
                // Go back to the name that the kernel chose. If that name is taken by now, the temporary name
                // stays.
                let _ = route.rename_link(link.index, &link.name);
                eprintln!(
                    "ferroband: interface {} keeps its name: another interface has its original name {name}",
                    link.name
                );
                return Ok(());
            }
            other => return Ok(other?),
        }
    }
}

/// If `name` is held by the interface of another leased function that did not have it originally, rename that
/// interface to its temporary name. Its own call may have been killed, and its DEL may come much later.
/// Returns whether an interface was renamed.
fn free_name(
    context: &CniContext<'_>,
    hardware: &dyn Hardware,
    route: &mut RouteSocket,
    name: &str,
) -> Result<bool, Error> {
    for lease in VfLease::list(context.root)?.iter().filter(|lease| lease.saved.name != name) {
        if let Some(link) = find_interface(hardware, lease.function, None)?.filter(|link| link.name == name) {
            // A call that works on this interface may have renamed it already. It finds the interface by its
            // function, so the rename does not disturb it.
            let renamed = route
                .set_down(link.index)
                .and_then(|()| route.rename_link(link.index, &transit_name(lease.function)));
            return Ok(renamed.is_ok());
        }
    }
    Ok(false)
}

/// After an RDMA device move, configure the new interface like the one that the move destroyed.
pub(crate) fn reinstall_interface(
    context: &CniContext<'_>,
    hardware: &dyn Hardware,
    function: PciAddress,
    netns: &Netns,
    route: &mut RouteSocket,
    old: &Link,
) -> Result<(), Error> {
    let link = ensure_in_sandbox((context, hardware), function, netns, (&mut *route, &old.name))?;
    if link.mtu != old.mtu {
        route.set_mtu(link.index, old.mtu)?;
    }
    Ok(route.set_up(link.index)?)
}
