//! GC: remove what belongs to no attachment that the runtime still knows.
//!
//! Our journals are the evidence. Each is undone under its own lock, exactly as a DEL would. Then the foreign
//! plugins hear of it: those that the configuration wraps, and those of the default networks that the journals
//! name.

use crate::delegate::{self, Surroundings};
use crate::journal::{Found, Journal};
use crate::owed::Owed;
use crate::plan::{Attachment, Doer};
use crate::{Command, Error, Invocation, Key, Lock, Machine, Role, Version, chain, daemon, del};
use serde_json::Value;

/// Both names of the list: libcni sends it under the second as well, which was a mistake of its first release.
const VALID: [&str; 2] = ["cni.dev/valid-attachments", "cni.dev/attachments"];

/// Remove what is not in the list of valid attachments. Failures do not stop it.
pub(crate) fn gc(machine: &Machine<'_>, role: Role, call: &Invocation) -> Result<(), Error> {
    let fields = call.config.fields();
    if fields.flag("disableGC")? {
        return Ok(());
    }
    let valid = valid(call)?;
    let network = call.config.name()?;
    let mut errors = Vec::new();
    let mut networks = Vec::new();
    for Found { stem, journal } in Journal::all(machine.root)? {
        let of_role = |key: &Key| key.role() == (!role.is_meta()).then_some(role);
        let Some(key) = Key::of_stem(&stem).filter(of_role) else { continue };
        match journal {
            Ok(journal) if journal.network != network => {}
            Ok(journal) => {
                networks.extend(journal.entries.iter().map(|entry| entry.attachment.clone()));
                if !valid.contains(&(journal.container.clone(), journal.ifname.clone())) {
                    errors.extend(collect(machine, call, &key));
                }
            }
            Err(error) if error.is_damage() => {
                if !valid.iter().any(|(container, _)| container == key.container()) {
                    errors.extend(collect_damaged(machine, &key));
                }
            }
            Err(error) => errors.push(error),
        }
    }
    errors.extend(forward(role, call, networks));
    Error::all(errors)
}

fn collect(machine: &Machine<'_>, call: &Invocation, key: &Key) -> Vec<Error> {
    let collected = Lock::take(machine.root, key, machine.patience.quick).and_then(|lock| {
        // It may have been deleted since it was listed.
        match Journal::load(machine.root, key)? {
            Some(journal) => del::by_journal(machine, journal, None, &call.path, lock),
            None => Ok(Vec::new()),
        }
    });
    collected.unwrap_or_else(|error| vec![error])
}

/// Nothing is known but the name of the file.
fn collect_damaged(machine: &Machine<'_>, key: &Key) -> Vec<Error> {
    let collected = Lock::take(machine.root, key, machine.patience.quick).and_then(|lock| {
        del::sweep(key, None, |_| false)?;
        daemon::release(machine, &Owed::new(key, None), None)?;
        Journal::remove(machine.root, key)?;
        lock.retire();
        Ok(())
    });
    collected.err().into_iter().collect()
}

/// Let foreign plugins collect their own garbage.
fn forward(role: Role, call: &Invocation, networks: Vec<Attachment>) -> Vec<Error> {
    let around =
        Surroundings { container: "", netns: "", ifname: "", args: "", path: &call.path, lock: None };
    let fields = call.config.fields();
    if role != Role::Ferroband {
        let ipam = fields.ipam_type().ok().flatten().filter(|ipam| *ipam != Role::Whereabouts.as_str());
        let ipam = ipam.filter(|_| role == Role::Ipoib);
        let run = |ipam| delegate::run(ipam, Command::Gc, &around, call.config.bytes());
        return ipam.and_then(|ipam| run(ipam).err()).into_iter().collect();
    }
    let mut errors = Vec::new();
    let mut defaults: Vec<Attachment> = Vec::new();
    let wrapped = del::wrapped(fields).filter_map(|network| chain::foreign(network.0, "", true).ok());
    for network in wrapped.chain(networks.into_iter().filter(|network| network.default)) {
        let same = |other: &Attachment| (&other.name, &other.steps) == (&network.name, &network.steps);
        if !defaults.iter().any(same) {
            defaults.push(network);
        }
    }
    for network in &mut defaults {
        if network.version().is_ok_and(|version| version < Version::V1_1_0) {
            continue;
        }
        for step in &mut network.steps {
            step.config
                .extend(VALID.iter().filter_map(|key| Some(((*key).to_owned(), fields.get(key)?.clone()))));
        }
        for step in network.steps.iter().filter(|step| matches!(step.by, Doer::Foreign)) {
            let stdin = chain::stdin(network, step, None);
            errors.extend(delegate::run(step.plugin(), Command::Gc, &around, &stdin).err());
        }
    }
    errors
}

/// The attachments that the runtime knows. Without the list nothing is removed: an absent one is not an empty one.
fn valid(call: &Invocation) -> Result<Vec<(String, String)>, Error> {
    let fields = call.config.fields();
    let wrong = || Error::Field {
        field: VALID[0].to_owned(),
        wanted: "a list of objects with `containerID` and `ifname`",
    };
    let list = VALID.iter().find_map(|key| fields.get(key)).and_then(Value::as_array).ok_or_else(wrong)?;
    list.iter()
        .map(|one| {
            let one = crate::Fields(one.as_object()?);
            let text = |key| one.text(key).ok().flatten().map(str::to_owned);
            Some((text("containerID")?, text("ifname")?))
        })
        .collect::<Option<_>>()
        .ok_or_else(wrong)
}
