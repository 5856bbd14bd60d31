//! DEL: from the journal, and without one as well as it can be done.
//!
//! It needs neither the daemon nor the namespace. Only two things make it fail: a foreign plugin's DEL that
//! fails, and a kernel that refuses. Then the journal stays for the next try.

use crate::config::Fields;
use crate::delegate::{self, Surroundings};
use crate::journal::Journal;
use crate::owed::Owed;
use crate::result::CniResult;
use crate::sandbox::Remains;
use crate::undo::{Undoing, close};
use crate::upstream::{self, Left};
use crate::vf::{Owner, Restoring};
use crate::{Command, Error, Invocation, Key, Lock, Machine, Point, Role, args, chain, daemon, ipoib};
use ferroband_kernel::{Link, Netns, Route, boot_id};
use serde_json::Value;
use std::cell::RefCell;

/// Detach.
pub(crate) fn del(machine: &Machine<'_>, role: Role, call: &Invocation) -> Result<(), Error> {
    let key = Key::new(role, &call.container, &call.ifname);
    let lock = Lock::take(machine.root, &key, machine.patience.lock)?;
    let errors = match Journal::load(machine.root, &key) {
        Ok(Some(journal)) => by_journal(machine, journal, Some(call), &call.path, lock)?,
        Ok(None) => without_journal(machine, role, call, &key, lock, false)?,
        Err(error) if error.is_damage() => {
            eprintln!("ferroband: {error}; deleting what can be known without it");
            without_journal(machine, role, call, &key, lock, true)?
        }
        Err(error) => return Err(error),
    };
    Error::all(errors)
}

/// Undo what `journal` says.
pub(crate) fn by_journal(
    machine: &Machine<'_>,
    mut journal: Journal,
    call: Option<&Invocation>,
    path: &str,
    lock: Lock,
) -> Result<Vec<Error>, Error> {
    let remains = Remains::of_journal(machine.root, call, &journal)?;
    let undoing = Undoing {
        machine,
        lock: &lock,
        netns: remains.netns.as_ref(),
        told_netns: &remains.told,
        path,
        call,
        daemon: RefCell::default(),
    };
    let errors = undoing.run(&mut journal);
    Ok(close(machine, journal, lock, None, errors))
}

/// Make room for an ADD: undo what an earlier one of the same sandbox left. One that is attached and alive
/// must be deleted first, by the runtime.
pub(crate) fn clear(
    machine: &Machine<'_>,
    key: &Key,
    call: &Invocation,
    netns: &Netns,
    lock: Lock,
) -> Result<Lock, Error> {
    let again = |machine: &Machine<'_>| Lock::take(machine.root, key, machine.patience.lock);
    match Journal::load(machine.root, key) {
        Ok(None) => Ok(lock),
        // Assigning again what is assigned is harmless.
        Ok(Some(old)) if old.role.is_ipam() => Ok(lock),
        Ok(Some(old)) => {
            let alive = old.netns_id == netns.id() && old.boot == boot_id(machine.root)?;
            if old.attached && alive {
                return Err(Error::AlreadyAttached { container: call.container.clone() });
            }
            Error::all(by_journal(machine, old, None, &call.path, lock)?)?;
            again(machine)
        }
        Err(error) if error.is_damage() => {
            sweep(key, Some(netns), |_| false)?;
            Journal::remove(machine.root, key)?;
            Ok(lock)
        }
        Err(error) => Err(error),
    }
}

/// What can be done when only the call is known: nothing of ours was recorded, or the record is `damaged`.
fn without_journal(
    machine: &Machine<'_>,
    role: Role,
    call: &Invocation,
    key: &Key,
    lock: Lock,
    damaged: bool,
) -> Result<Vec<Error>, Error> {
    let remains = Remains::of_call(call)?;
    let around = Surroundings {
        container: &call.container,
        netns: &remains.told,
        ifname: &call.ifname,
        args: call.args.as_str().into(),
        path: &call.path,
        lock: Some(&lock),
    };
    let mut errors = Vec::new();
    let named = named(call);
    let ours = |link: &Link| match role {
        // The sandbox is being torn down: its IPoIB children would come back to the host with its end.
        Role::Ferroband => damaged && (named.contains(&link.name) || is_child(link)),
        // Made by the plugin that we replace, or by us. Never an interface of another kind: this may be the DEL
        // after an ADD that failed because the name was taken.
        Role::Ipoib => link.name == call.ifname && (damaged || is_child(link)),
        Role::IbSriov | Role::Rdma | Role::Coordinator | Role::Whereabouts | Role::Spiderpool => false,
    };
    errors.extend(sweep(key, remains.netns.as_ref(), ours).err());
    (machine.watch)(Point::Undone);
    errors.extend(devices(machine, role, call, remains.netns.as_ref(), damaged));

    let fields = call.config.fields();
    let ipam = fields.ipam_type().ok().flatten();
    match role {
        Role::Ferroband => {
            let version = call.version.as_str();
            // A sandbox of upstream Multus has its files; any other from before us has at most the network that
            // the configuration wraps.
            errors.extend(match Left::find(machine.root, &call.container, &call.ifname, version) {
                Some(left) => left.delete(machine, call, &around),
                None => delegates(fields, &around).into_iter().flatten().collect(),
            });
        }
        Role::Ipoib | Role::IbSriov => match ipam {
            None | Some("dhcp") => {}
            ipam if Role::assigns(ipam) => {}
            Some(ipam) => {
                errors.extend(delegate::run(ipam, Command::Del, &around, call.config.bytes()).err());
            }
        },
        Role::Rdma | Role::Coordinator | Role::Whereabouts | Role::Spiderpool => {}
    }
    let held = match role {
        Role::Ferroband => damaged,
        Role::Rdma | Role::Coordinator => false,
        Role::Ipoib | Role::IbSriov => Role::assigns(ipam),
        Role::Whereabouts | Role::Spiderpool => true,
    };
    if held && errors.is_empty() {
        let owed = Owed::new(key, args::pod(&call.args).ok().flatten());
        errors.extend(daemon::release(machine, &owed, None).err());
    }
    if errors.is_empty() {
        Journal::remove(machine.root, key)?;
        (machine.watch)(Point::Forgotten);
        lock.retire();
    }
    Ok(errors)
}

/// Take back the functions and RDMA devices that records beside the journal, or upstream's files, say the sandbox has.
fn devices(
    machine: &Machine<'_>,
    role: Role,
    call: &Invocation,
    netns: Option<&Netns>,
    damaged: bool,
) -> Vec<Error> {
    let of_call = |owner: &Owner| match role {
        Role::Ferroband => damaged && owner.container == call.container,
        Role::IbSriov => owner.container == call.container && owner.ifname == call.ifname,
        _ => false,
    };
    let mut errors = Restoring::run_all(machine, netns, of_call);
    errors.extend(match role {
        Role::IbSriov => upstream::function(machine, call, netns).err(),
        Role::Rdma => upstream::rdma(machine, call, netns).err(),
        _ => None,
    });
    errors
}

/// Delete the half-made interfaces of `key`, and in the sandbox those that are `ours`.
pub(crate) fn sweep(key: &Key, netns: Option<&Netns>, ours: impl Fn(&Link) -> bool) -> Result<(), Error> {
    let prefix = ipoib::prefix(&key.stem());
    let temporary = |link: &Link| link.name.len() == 15 && link.name.starts_with(&prefix);
    ipoib::delete(&mut Route::here()?, temporary)?;
    if let Some(netns) = netns {
        ipoib::delete(&mut Route::inside(netns)?, |link| temporary(link) || ours(link))?;
    }
    Ok(())
}

/// The networks that the configuration itself wraps, for sandboxes from before we were installed.
pub(crate) fn wrapped<'a>(fields: Fields<'a>) -> impl Iterator<Item = Fields<'a>> {
    let delegates = fields.list("delegates").ok().flatten().into_iter().flatten();
    delegates.filter_map(Value::as_object).map(Fields)
}

fn delegates(fields: Fields<'_>, around: &Surroundings<'_>) -> Option<Vec<Error>> {
    let network = chain::foreign(wrapped(fields).next()?.0, around.ifname, true).ok()?;
    let run = |step| {
        let stdin = chain::stdin(&network, step, fields.get("prevResult"));
        delegate::run(step.plugin(), Command::Del, around, &stdin)
    };
    Some(network.steps.iter().rev().filter_map(|step| run(step).err()).collect())
}

/// The interfaces that the call names: its own, and those of the result that it carries.
fn named(call: &Invocation) -> Vec<String> {
    let previous = call.config.fields().get("prevResult");
    let result = previous.and_then(|previous| CniResult::read(previous, call.version).ok());
    let interfaces = result.map(|result| result.interfaces).unwrap_or_default();
    let inside = interfaces.into_iter().filter(|interface| !interface.sandbox.is_empty());
    inside.map(|interface| interface.name).chain([call.ifname.clone()]).collect()
}

fn is_child(link: &Link) -> bool {
    link.ipoib.is_some() && link.parent.is_some()
}
