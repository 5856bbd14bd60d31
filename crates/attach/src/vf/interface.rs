//! The interface of a function, wherever it is.

use super::VfLease;
use crate::{CniContext, Error, FailPoint};
use ferroband_kernel::{Error as KernelError, Hardware, Link, Netns, RouteSocket};
use ferroband_model::PciAddress;
use std::time::{Duration, Instant};

/// How often an interface that is to appear is looked for.
const PAUSE: Duration = Duration::from_millis(20);
/// How long another function's interface may have this one's name on its way: a rebind, or the move of an RDMA device.
const NAME_WAIT: Duration = Duration::from_secs(5);

/// What the interface is called on its way: the same on every node at every time, and nobody else's.
pub(super) fn transit_name(function: PciAddress) -> String {
    let (bus, device) = (function.bus(), function.device());
    format!("vfdev{:04x}{bus:02x}{device:02x}{:x}", function.domain(), function.function())
}

/// The interface in the host.
pub(super) fn find_in_host(hardware: &dyn Hardware, function: PciAddress) -> Result<Option<Link>, Error> {
    Ok(lowest_index(hardware.interfaces(function, None)?))
}

/// The interface in the sandbox.
pub(crate) fn find_in_sandbox(
    hardware: &dyn Hardware,
    function: PciAddress,
    netns: &Netns,
) -> Result<Option<Link>, Error> {
    Ok(lowest_index(hardware.interfaces(function, Some(netns))?))
}

fn lowest_index(links: Vec<Link>) -> Option<Link> {
    links.into_iter().min_by_key(|link| link.index)
}

/// Where an interface was found.
#[derive(Debug)]
pub(super) enum InterfaceLocation {
    Host(Link),
    Sandbox(Link),
}

/// Wait for the interface to appear: in the sandbox, if there is one, or in the host. A driver makes it in its own
/// time, and udev may name it once more.
pub(super) fn wait_for_interface(
    machine: &CniContext<'_>,
    hardware: &dyn Hardware,
    function: PciAddress,
    netns: Option<&Netns>,
) -> Result<Option<InterfaceLocation>, Error> {
    let end = Instant::now() + machine.timeouts.device_ready;
    loop {
        if let Some(link) = find_in_host(hardware, function)? {
            return Ok(Some(InterfaceLocation::Host(link)));
        }
        if let Some(netns) = netns
            && let Some(link) = find_in_sandbox(hardware, function, netns)?
        {
            return Ok(Some(InterfaceLocation::Sandbox(link)));
        }
        if Instant::now() >= end {
            return Ok(None);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Have the interface in the sandbox, where it is called `name`, wherever it comes up. What it was when it had come there.
pub(super) fn ensure_in_sandbox(
    (machine, hardware): (&CniContext<'_>, &dyn Hardware),
    function: PciAddress,
    netns: &Netns,
    (inside, name): (&mut RouteSocket, &str),
) -> Result<Link, Error> {
    let appeared = wait_for_interface(machine, hardware, function, Some(netns))?;
    let link = match appeared.ok_or(Error::NoNetdev { function })? {
        InterfaceLocation::Sandbox(link) => link,
        InterfaceLocation::Host(link) => {
            move_to_sandbox(machine, function, &link, netns, (&mut *inside, name))?
        }
    };
    rename_in_sandbox(inside, &link, name)?;
    (machine.fail_point)(FailPoint::InterfaceRenamed);
    Ok(link)
}

/// Move the interface from the host into the sandbox, where it is called `name`, without the other names that something
/// there has. What it is there.
fn move_to_sandbox(
    machine: &CniContext<'_>,
    function: PciAddress,
    link: &Link,
    netns: &Netns,
    (inside, name): (&mut RouteSocket, &str),
) -> Result<Link, Error> {
    let mut route = RouteSocket::open()?;
    // A name that is taken there would stop it (`__dev_change_net_namespace`), and so would its own as another of its names.
    for altname in &link.altnames {
        if *altname == link.name || *altname == name || inside.link(altname)?.is_some() {
            route.remove_altname(link.index, altname)?;
        }
    }
    route.move_and_rename(link.index, netns, name)?;
    (machine.fail_point)(FailPoint::InterfaceMoved);
    inside.link(name)?.ok_or(Error::NoNetdev { function })
}

/// Move the interface from the sandbox back to the host: under the name that it had there, or under its passing one while
/// somebody else has that.
pub(super) fn move_to_host(
    machine: &CniContext<'_>,
    function: PciAddress,
    link: &Link,
    netns: &Netns,
    name: &str,
) -> Result<(), Error> {
    let mut route = RouteSocket::open_in(netns)?;
    let mut here = RouteSocket::open()?;
    for altname in &link.altnames {
        if altname == name || here.link(altname)?.is_some() {
            route.remove_altname(link.index, altname)?;
        }
    }
    let (host, passing) = (Netns::current()?, transit_name(function));
    let name = if name.is_empty() { &passing } else { name };
    match route.move_and_rename(link.index, &host, name) {
        // It may be here all the same.
        Err(KernelError::NameTaken { .. }) => {
            let still = route.link_by_index(link.index)?.is_some_and(|one| one.address == link.address);
            if still {
                route.move_and_rename(link.index, &host, &passing)?;
            }
        }
        other => other?,
    }
    (machine.fail_point)(FailPoint::InterfaceMoved);
    Ok(())
}

/// Give the interface `name`, which may be one of its other names now.
fn rename_in_sandbox(route: &mut RouteSocket, link: &Link, name: &str) -> Result<(), Error> {
    if link.name == name {
        return Ok(());
    }
    // Before 6.2 one that is up keeps its name.
    route.set_down(link.index)?;
    if link.altnames.iter().any(|altname| altname == name) {
        route.remove_altname(link.index, name)?;
    }
    Ok(route.rename_link(link.index, name)?)
}

/// Give the interface the name that it had, if nobody else has it for longer than a moment: the kernel gives a new
/// interface the lowest free name, and so another function that is being put right may have this one's on its way, and
/// this one the other's. Hence it waits under a name that nobody waits for, and one whose call was killed makes way.
pub(super) fn restore_name(
    (machine, hardware): (&CniContext<'_>, &dyn Hardware),
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
    let passing = transit_name(function);
    let mut waiting = link.name == passing;
    let end = Instant::now() + NAME_WAIT;
    loop {
        match route.rename_link(link.index, name) {
            Err(KernelError::NameTaken { .. }) if Instant::now() < end => {
                if !waiting {
                    route.rename_link(link.index, &passing)?;
                    waiting = true;
                }
                if !free_name(machine, hardware, route, name)? {
                    std::thread::sleep(PAUSE);
                }
            }
            Err(KernelError::NameTaken { .. }) => {
                // The kernel's choice may have gone to somebody else meanwhile.
                let _ = route.rename_link(link.index, &link.name);
                eprintln!(
                    "ferroband: interface {} cannot be called {name} again: the name is taken",
                    link.name
                );
                return Ok(());
            }
            other => return Ok(other?),
        }
    }
}

/// Have the function that has this name on its way, and is not called so by right, take its passing name: its own call may
/// have been killed, and its DEL may come much later. Says whether it did.
fn free_name(
    machine: &CniContext<'_>,
    hardware: &dyn Hardware,
    route: &mut RouteSocket,
    name: &str,
) -> Result<bool, Error> {
    for held in VfLease::list(machine.root)?.iter().filter(|held| held.saved.name != name) {
        if let Some(link) = find_in_host(hardware, held.function)?.filter(|link| link.name == name) {
            // Whoever is at work on it looks for it by its function, and may have renamed it by now.
            let made = route
                .set_down(link.index)
                .and_then(|()| route.rename_link(link.index, &transit_name(held.function)));
            return Ok(made.is_ok());
        }
    }
    Ok(false)
}

/// Put the interface that an RDMA device's move made in the place of the one that it took away.
pub(crate) fn reinstall_interface(
    machine: &CniContext<'_>,
    hardware: &dyn Hardware,
    function: PciAddress,
    netns: &Netns,
    route: &mut RouteSocket,
    had: &Link,
) -> Result<(), Error> {
    let link = ensure_in_sandbox((machine, hardware), function, netns, (&mut *route, &had.name))?;
    if link.mtu != had.mtu {
        route.set_mtu(link.index, had.mtu)?;
    }
    Ok(route.set_up(link.index)?)
}
