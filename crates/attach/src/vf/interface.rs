//! The interface of a function, wherever it is.

use super::Held;
use crate::{Error, Machine, Point};
use ferroband_kernel::{Error as KernelError, Hardware, Link, Netns, Route};
use ferroband_model::PciAddress;
use std::time::{Duration, Instant};

/// How often an interface that is to appear is looked for.
const PAUSE: Duration = Duration::from_millis(20);
/// How long another function's interface may have this one's name on its way: a rebind, or the move of an RDMA device.
const PASSING: Duration = Duration::from_secs(5);

/// What the interface is called on its way: the same on every node at every time, and nobody else's.
pub(super) fn passing(function: PciAddress) -> String {
    let (bus, device) = (function.bus(), function.device());
    format!("vfdev{:04x}{bus:02x}{device:02x}{:x}", function.domain(), function.function())
}

/// The interface in the host.
pub(super) fn here(hardware: &dyn Hardware, function: PciAddress) -> Result<Option<Link>, Error> {
    Ok(first(hardware.interfaces(function, None)?))
}

/// The interface in the sandbox.
pub(crate) fn inside(
    hardware: &dyn Hardware,
    function: PciAddress,
    netns: &Netns,
) -> Result<Option<Link>, Error> {
    Ok(first(hardware.interfaces(function, Some(netns))?))
}

fn first(links: Vec<Link>) -> Option<Link> {
    links.into_iter().min_by_key(|link| link.index)
}

/// Where an interface was found.
#[derive(Debug)]
pub(super) enum Place {
    Here(Link),
    Inside(Link),
}

/// Wait for the interface to appear: in the sandbox, if there is one, or in the host. A driver makes it in its own
/// time, and udev may name it once more.
pub(super) fn appear(
    machine: &Machine<'_>,
    hardware: &dyn Hardware,
    function: PciAddress,
    netns: Option<&Netns>,
) -> Result<Option<Place>, Error> {
    let end = Instant::now() + machine.patience.device;
    loop {
        if let Some(link) = here(hardware, function)? {
            return Ok(Some(Place::Here(link)));
        }
        if let Some(netns) = netns
            && let Some(link) = inside(hardware, function, netns)?
        {
            return Ok(Some(Place::Inside(link)));
        }
        if Instant::now() >= end {
            return Ok(None);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Have the interface in the sandbox, where it is called `name`, wherever it comes up. What it was when it had come there.
pub(super) fn bring(
    (machine, hardware): (&Machine<'_>, &dyn Hardware),
    function: PciAddress,
    netns: &Netns,
    (inside, name): (&mut Route, &str),
) -> Result<Link, Error> {
    let appeared = appear(machine, hardware, function, Some(netns))?;
    let link = match appeared.ok_or(Error::NoNetdev { function })? {
        Place::Inside(link) => link,
        Place::Here(link) => send(machine, function, &link, netns, (&mut *inside, name))?,
    };
    name_inside(inside, &link, name)?;
    (machine.watch)(Point::Named);
    Ok(link)
}

/// Move the interface from the host into the sandbox, where it is called `name`, without the other names that something
/// there has. What it is there.
fn send(
    machine: &Machine<'_>,
    function: PciAddress,
    link: &Link,
    netns: &Netns,
    (inside, name): (&mut Route, &str),
) -> Result<Link, Error> {
    let mut route = Route::here()?;
    // A name that is taken there would stop it (`__dev_change_net_namespace`), and so would its own as another of its names.
    for altname in &link.altnames {
        if *altname == link.name || *altname == name || inside.link(altname)?.is_some() {
            route.remove_altname(link.index, altname)?;
        }
    }
    route.move_as(link.index, netns, name)?;
    (machine.watch)(Point::Moved);
    inside.link(name)?.ok_or(Error::NoNetdev { function })
}

/// Move the interface from the sandbox back to the host: under the name that it had there, or under its passing one while
/// somebody else has that.
pub(super) fn fetch(
    machine: &Machine<'_>,
    function: PciAddress,
    link: &Link,
    netns: &Netns,
    name: &str,
) -> Result<(), Error> {
    let mut route = Route::inside(netns)?;
    let mut here = Route::here()?;
    for altname in &link.altnames {
        if altname == name || here.link(altname)?.is_some() {
            route.remove_altname(link.index, altname)?;
        }
    }
    let (host, passing) = (Netns::current()?, passing(function));
    let name = if name.is_empty() { &passing } else { name };
    match route.move_as(link.index, &host, name) {
        // It may be here all the same.
        Err(KernelError::NameTaken { .. }) => {
            let still = route.link_by_index(link.index)?.is_some_and(|one| one.address == link.address);
            if still {
                route.move_as(link.index, &host, &passing)?;
            }
        }
        other => other?,
    }
    (machine.watch)(Point::Moved);
    Ok(())
}

/// Give the interface `name`, which may be one of its other names now.
fn name_inside(route: &mut Route, link: &Link, name: &str) -> Result<(), Error> {
    if link.name == name {
        return Ok(());
    }
    // Before 6.2 one that is up keeps its name.
    route.down(link.index)?;
    if link.altnames.iter().any(|altname| altname == name) {
        route.remove_altname(link.index, name)?;
    }
    Ok(route.rename(link.index, name)?)
}

/// Give the interface the name that it had, if nobody else has it for longer than a moment: the kernel gives a new
/// interface the lowest free name, and so another function that is being put right may have this one's on its way, and
/// this one the other's. Hence it waits under a name that nobody waits for, and one whose call was killed makes way.
pub(super) fn rename_back(
    (machine, hardware): (&Machine<'_>, &dyn Hardware),
    route: &mut Route,
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
    let passing = passing(function);
    let mut waiting = link.name == passing;
    let end = Instant::now() + PASSING;
    loop {
        match route.rename(link.index, name) {
            Err(KernelError::NameTaken { .. }) if Instant::now() < end => {
                if !waiting {
                    route.rename(link.index, &passing)?;
                    waiting = true;
                }
                if !make_way(machine, hardware, route, name)? {
                    std::thread::sleep(PAUSE);
                }
            }
            Err(KernelError::NameTaken { .. }) => {
                // The kernel's choice may have gone to somebody else meanwhile.
                let _ = route.rename(link.index, &link.name);
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
fn make_way(
    machine: &Machine<'_>,
    hardware: &dyn Hardware,
    route: &mut Route,
    name: &str,
) -> Result<bool, Error> {
    for held in Held::all(machine.root)?.iter().filter(|held| held.before.name != name) {
        if let Some(link) = here(hardware, held.function)?.filter(|link| link.name == name) {
            // Whoever is at work on it looks for it by its function, and may have renamed it by now.
            let made =
                route.down(link.index).and_then(|()| route.rename(link.index, &passing(held.function)));
            return Ok(made.is_ok());
        }
    }
    Ok(false)
}

/// Put the interface that an RDMA device's move made in the place of the one that it took away.
pub(crate) fn place_again(
    machine: &Machine<'_>,
    hardware: &dyn Hardware,
    function: PciAddress,
    netns: &Netns,
    route: &mut Route,
    had: &Link,
) -> Result<(), Error> {
    let link = bring((machine, hardware), function, netns, (&mut *route, &had.name))?;
    if link.mtu != had.mtu {
        route.set_mtu(link.index, had.mtu)?;
    }
    Ok(route.up(link.index)?)
}
