//! Taking a function back, and putting it right.
//!
//! Every part is done as far as it is still to be done, and a part that fails does not stop the others: what is left is
//! found by the record, which stays until nothing is left.

use super::held::{self, Before};
use super::interface::{self, Place};
use super::{Function, Held, Owner};
use crate::daemon::Daemon;
use crate::{Error, Lock, Machine, Point, Unbroken, rdma};
use ferroband_kernel::route::GuidKind;
use ferroband_kernel::{Hardware, Netns, Route, boot_id};
use ferroband_model::{Guid, PciAddress};

/// The surroundings of a restoration.
pub(crate) struct Restoring<'a> {
    pub(crate) machine: &'a Machine<'a>,
    /// The sandbox that has the function, if it still exists.
    pub(crate) netns: Option<&'a Netns>,
    pub(crate) daemon: Option<&'a mut Daemon>,
}

impl Restoring<'_> {
    /// Take `function` back from the holder of the journal `stem`. One that somebody else has by now is left alone.
    pub(crate) fn run(mut self, function: PciAddress, stem: &str) -> Result<(), Error> {
        let lock = held::lock(self.machine.root, function, self.machine.patience.lock)?;
        match Held::load(self.machine.root, function)? {
            Some(held) if held.owner.stem == stem => self.restore(&held, &lock)?,
            Some(_) => return Ok(()),
            None => {}
        }
        lock.retire();
        Ok(())
    }

    /// Take back everything that `ours` says belongs to a sandbox of which no journal can be read.
    pub(crate) fn run_all(
        machine: &Machine<'_>,
        netns: Option<&Netns>,
        ours: impl Fn(&Owner) -> bool,
    ) -> Vec<Error> {
        let all = match Held::all(machine.root) {
            Ok(all) => all,
            Err(error) => return vec![error],
        };
        let mut errors = Vec::new();
        for held in all.into_iter().filter(|held| ours(&held.owner)) {
            let own = held.owner.netns(machine.root).ok().flatten();
            let restoring = Restoring { machine, netns: netns.or(own.as_ref()), daemon: None };
            errors.extend(restoring.run(held.function, &held.owner.stem).err());
        }
        errors
    }

    /// Put the function right. The caller holds its lock.
    pub(crate) fn restore(&mut self, held: &Held, lock: &Lock) -> Result<(), Error> {
        // Nothing of an earlier boot is left, and what the function is like now is for others to say.
        let same_boot = boot_id(self.machine.root)? == held.owner.boot;
        if same_boot {
            let hardware = self.machine.adapters()?;
            if Function::look(hardware, held.function)?.is_some() {
                Error::all(self.undo(hardware, held, lock))?;
            }
        }
        held.forget(self.machine.root)?;
        (self.machine.watch)(Point::Undone);
        Ok(())
    }

    fn undo(&mut self, hardware: &dyn Hardware, held: &Held, lock: &Lock) -> Vec<Error> {
        let mut errors = Vec::new();
        if let Some(device) = &held.rdma {
            let back = rdma::take_back(
                self.machine,
                hardware,
                self.netns,
                Some(held.function),
                device,
                self.daemon.as_deref_mut(),
                lock,
            );
            errors.extend(back.err());
        }
        if let Some(netns) = self.netns.filter(|_| !held.vfio) {
            errors.extend(self.fetch(hardware, held, netns).err());
        }
        errors.extend(self.set_back(hardware, held).err());
        if !held.vfio {
            errors.extend(self.rebind(hardware, held, lock).err());
            errors.extend(self.name_back(hardware, held).err());
        }
        errors
    }

    fn fetch(&self, hardware: &dyn Hardware, held: &Held, netns: &Netns) -> Result<(), Error> {
        match interface::inside(hardware, held.function, netns)? {
            Some(link) => interface::fetch(self.machine, held.function, &link, netns, &held.before.name),
            None => Ok(()),
        }
    }

    fn set_back(&self, hardware: &dyn Hardware, held: &Held) -> Result<(), Error> {
        let Before { node_guid, port_guid, state, .. } = &held.before;
        let function = Function::get(hardware, held.function)?;
        if held.state {
            let (physical, index) = function.as_virtual()?;
            hardware.set_vf_state(physical, index, state.unwrap_or_default())?;
            (self.machine.watch)(Point::Set);
        }
        if held.guid.is_some() {
            let (physical, index) = function.as_virtual()?;
            for (kind, guid) in [(GuidKind::Node, node_guid), (GuidKind::Port, port_guid)] {
                // Zero is no GUID that could be set; all ones says as much, as upstream has it.
                let guid = guid.unwrap_or(Guid::new(u64::MAX));
                hardware.set_vf_guid(physical, index, kind, guid)?;
                (self.machine.watch)(Point::Set);
            }
        }
        Ok(())
    }

    /// A driver that has taken on a GUID which is no longer set must be bound anew; so must one that is not there, or
    /// whose interface is not: something was broken off.
    fn rebind(&mut self, hardware: &dyn Hardware, held: &Held, lock: &Lock) -> Result<(), Error> {
        let function = Function::get(hardware, held.function)?;
        let (node, port) = function.guids();
        let stale = held.guid.is_some_and(|guid| {
            let Before { node_guid, port_guid, .. } = held.before;
            node == Some(guid) && node_guid != node || port == Some(guid) && port_guid != port
        });
        let bare = function.driver.is_none()
            || interface::appear(self.machine, hardware, held.function, self.netns)?.is_none();
        if stale || bare {
            let work = Unbroken::Rebind { function: held.function };
            work.have_done(self.machine, self.daemon.as_deref_mut(), None, lock)?;
        }
        Ok(())
    }

    fn name_back(&self, hardware: &dyn Hardware, held: &Held) -> Result<(), Error> {
        let appeared = interface::appear(self.machine, hardware, held.function, None)?;
        let Some(Place::Here(link)) = appeared else {
            return Err(Error::NoNetdev { function: held.function });
        };
        let before = &held.before;
        // It had no driver before.
        if before.name.is_empty() {
            return Ok(());
        }
        let mut route = Route::here()?;
        if link.name != before.name {
            route.down(link.index)?;
            interface::rename_back((self.machine, hardware), &mut route, held.function, &link, &before.name)?;
        }
        for altname in before.altnames.iter().filter(|altname| !link.altnames.contains(altname)) {
            // Somebody else may have it by now.
            if route.link(altname)?.is_none() {
                route.add_altname(link.index, altname)?;
            }
        }
        if let Some(mtu) = before.mtu.filter(|mtu| *mtu != link.mtu) {
            route.set_mtu(link.index, mtu)?;
        }
        match (before.up, link.up && link.name == before.name) {
            (true, false) => Ok(route.up(link.index)?),
            (false, true) => Ok(route.down(link.index)?),
            _ => Ok(()),
        }
    }
}
