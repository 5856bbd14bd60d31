//! Undoing what a journal says was done: in reverse, to the end, forgiving what is already gone.

use crate::apply::ipam_stdin;
use crate::config::Fields;
use crate::daemon::{self, Daemon};
use crate::delegate::{self, Surroundings};
use crate::journal::{Entry, Journal, StepState};
use crate::owed::Owed;
use crate::plan::Doer;
use crate::vf::Restoring;
use crate::{Command, Error, Invocation, Lock, Machine, Point, Version};
use crate::{args, chain, coordinator, device_info, ipoib, rdma};
use ferroband_kernel::Netns;
use std::cell::RefCell;

/// The surroundings of an undoing.
pub(crate) struct Undoing<'a> {
    pub(crate) machine: &'a Machine<'a>,
    pub(crate) lock: &'a Lock,
    /// The sandbox's namespace, if it still exists.
    pub(crate) netns: Option<&'a Netns>,
    /// What foreign plugins are told in `CNI_NETNS`.
    pub(crate) told_netns: &'a str,
    /// `CNI_PATH`.
    pub(crate) path: &'a str,
    /// The call, when it is about this very sandbox.
    pub(crate) call: Option<&'a Invocation>,
    /// A connection to the daemon that may still be open.
    pub(crate) daemon: RefCell<Option<Daemon>>,
}

impl Undoing<'_> {
    /// Undo all that is open, and mark it undone. What failed stays open; the rest is undone all the same.
    pub(crate) fn run(&self, journal: &mut Journal) -> Vec<Error> {
        let mut errors = Vec::new();
        for position in (0..journal.entries.len()).rev() {
            for step in (0..journal.entries[position].steps.len()).rev() {
                if let Err(error) = self.step(journal, position, step) {
                    errors.push(error.on(&journal.entries[position].attachment.network));
                }
                if let Err(error) = self.ipam(journal, position, step) {
                    errors.push(error.on(&journal.entries[position].attachment.network));
                }
            }
            let attachment = &journal.entries[position].attachment;
            errors.extend(device_info::remove(self.machine.root, &journal.container, attachment).err());
        }
        errors
    }

    fn step(&self, journal: &mut Journal, position: usize, step: usize) -> Result<(), Error> {
        let entry = &journal.entries[position];
        let record = &entry.steps[step];
        if !record.state.is_open() {
            return Ok(());
        }
        match (&entry.attachment.steps[step].by, &record.trace) {
            (Doer::Foreign, _) => self.execute(journal, entry, step)?,
            (Doer::IbSriov { vf, .. }, _) => {
                let daemon = &mut *self.daemon.borrow_mut();
                Restoring { machine: self.machine, netns: self.netns, daemon: daemon.as_mut() }
                    .run(vf.device, &journal.key().stem())?;
            }
            (Doer::Coordinator(wish), trace) => {
                let wire = trace.as_ref().map(|trace| trace.temporary.as_str());
                coordinator::leave(self.machine, self.netns, wish, wire)?;
            }
            (Doer::Rdma { .. }, _) => {
                if let Some(trace) = &record.rdma {
                    rdma::undo(self.machine, self.netns, trace, self.daemon.borrow_mut().as_mut())?;
                }
            }
            (_, Some(trace)) => {
                ipoib::remove(self.machine, self.netns, trace, &entry.attachment.ifname)?;
            }
            (_, None) => {}
        }
        journal.entries[position].steps[step].state = StepState::Undone;
        Ok(())
    }

    /// An IPAM plugin gets its address back only after the interface that had it is gone.
    fn ipam(&self, journal: &mut Journal, position: usize, step: usize) -> Result<(), Error> {
        let entry = &journal.entries[position];
        let record = &entry.steps[step];
        if !record.ipam.is_open() || record.state.is_open() {
            return Ok(());
        }
        if let Some(plugin) = Fields(&entry.attachment.steps[step].config).ipam_type()? {
            let stdin = ipam_stdin(entry, step, journal.role.is_meta(), self.call);
            delegate::run(plugin, Command::Del, &self.around(journal, entry), &stdin)?;
            (self.machine.watch)(Point::Executed);
        }
        journal.entries[position].steps[step].ipam = StepState::Undone;
        Ok(())
    }

    fn execute(&self, journal: &Journal, entry: &Entry, step: usize) -> Result<(), Error> {
        let planned = &entry.attachment.steps[step];
        let version = entry.attachment.version()?;
        // Since 0.4.0 a DEL is given the result of the whole chain, as far as there is one.
        let result = entry.result.as_ref().filter(|_| version >= Version::V0_4_0);
        let previous = result.map(|result| chain::previous(result, version)).transpose()?;
        let stdin = chain::stdin(&entry.attachment, planned, previous.as_ref());
        delegate::run(planned.plugin(), Command::Del, &self.around(journal, entry), &stdin)?;
        (self.machine.watch)(Point::Executed);
        Ok(())
    }

    fn around<'b>(&'b self, journal: &'b Journal, entry: &'b Entry) -> Surroundings<'b> {
        let of_call = self.call.map(|call| call.args.as_str()).filter(|args| !args.is_empty());
        let args = of_call.unwrap_or(&journal.args);
        Surroundings {
            container: &journal.container,
            netns: self.told_netns,
            ifname: &entry.attachment.ifname,
            args: args::with(args, &entry.attachment.args),
            path: self.path,
            lock: Some(self.lock),
        }
    }
}

/// End the story of a sandbox: tell or owe the daemon, then forget the journal, or keep it for the next DEL if
/// something is left to undo. Returns what went wrong.
pub(crate) fn close(
    machine: &Machine<'_>,
    journal: Journal,
    lock: Lock,
    daemon: Option<Daemon>,
    mut errors: Vec<Error>,
) -> Vec<Error> {
    let key = journal.key();
    if journal.daemon && journal.interfaces_gone() {
        let owed = Owed::new(&key, journal.pod.clone());
        errors.extend(daemon::release(machine, &owed, daemon).err());
    }
    let closed = match errors.is_empty() {
        true => Journal::remove(machine.root, &key),
        // So that what has been undone is not undone again.
        false => journal.save(machine.root),
    };
    (machine.watch)(if errors.is_empty() { Point::Forgotten } else { Point::Journaled });
    errors.extend(closed.err());
    if errors.is_empty() {
        lock.retire();
    }
    errors
}
