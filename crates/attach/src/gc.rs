//! GC: remove what belongs to no attachment that the runtime still knows.
//!
//! Our journals are the evidence, and the files of upstream Multus for what it left. Each sandbox is undone under its
//! own lock, exactly as a DEL would. Then the foreign plugins hear of it: those that the configuration wraps, and those
//! of all networks that the journals name, each with what is valid on its network.

use crate::delegate::{self, Surroundings};
use crate::journal::{Found, Journal};
use crate::owed::Owed;
use crate::plan::Attachment;
use crate::upstream::{self, Left};
use crate::vf::Restoring;
use crate::{Command, Error, Invocation, Key, Lock, Machine, Role, chain, daemon, del};
use serde_json::Value;

mod networks;

use networks::Networks;

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
    let mut networks = Networks::default();
    for Found { stem, journal } in Journal::all(machine.root)? {
        let of_role = |key: &Key| key.role() == (!role.is_meta()).then_some(role);
        let Some(key) = Key::of_stem(&stem).filter(of_role) else { continue };
        match journal {
            Ok(journal) if journal.network != network => {}
            Ok(journal) => {
                let stays = valid.contains(&(journal.container.clone(), journal.ifname.clone()));
                networks.note(&journal.container, journal.entries.iter().map(|one| &one.attachment), stays);
                if !stays {
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
    errors.extend(collect_functions(machine, role, &valid));
    if role.is_meta() {
        errors.extend(collect_upstream(machine, call, &valid, &mut networks));
    }
    errors.extend(forward(role, call, networks));
    Error::all(errors)
}

/// Sandboxes that upstream Multus attached.
fn collect_upstream(
    machine: &Machine<'_>,
    call: &Invocation,
    valid: &[(String, String)],
    networks: &mut Networks,
) -> Vec<Error> {
    let mut errors = Vec::new();
    for container in upstream::containers(machine.root) {
        let of_container = valid.iter().find(|(known, _)| *known == container);
        // Its files do not tell the name of the default interface; without one Multus takes this.
        let ifname = of_container.map_or("eth0", |(_, ifname)| ifname.as_str());
        let find = || Left::find(machine.root, &container, ifname, call.version.as_str());
        let Some(left) = find() else { continue };
        networks.note(&container, left.attachments(), of_container.is_some());
        if of_container.is_some() {
            continue;
        }
        let key = Key::new(Role::Ferroband, &container, ifname);
        match Lock::take(machine.root, &key, machine.patience.quick) {
            Ok(lock) => {
                let around = Surroundings {
                    container: &container,
                    netns: "",
                    ifname,
                    args: "".into(),
                    path: &call.path,
                    lock: Some(&lock),
                };
                let failed = find().map_or(Vec::new(), |left| left.delete(machine, call, &around));
                if failed.is_empty() {
                    lock.retire();
                }
                errors.extend(failed);
            }
            Err(error) => errors.push(error),
        }
    }
    errors
}

/// Functions of sandboxes whose journal is gone.
fn collect_functions(machine: &Machine<'_>, role: Role, valid: &[(String, String)]) -> Vec<Error> {
    let of_role = |key: &Key| key.role() == (!role.is_meta()).then_some(role);
    Restoring::run_all(machine, None, |owner| {
        let Some(key) = Key::of_stem(&owner.stem).filter(of_role) else { return false };
        let known = matches!(Journal::load(machine.root, &key), Ok(Some(_)) | Err(_));
        !known && !valid.iter().any(|(container, _)| *container == owner.container)
    })
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
        Error::all(Restoring::run_all(machine, None, |owner| owner.stem == key.stem()))?;
        daemon::release(machine, &Owed::new(key, None), None)?;
        Journal::remove(machine.root, key)?;
        lock.retire();
        Ok(())
    });
    collected.err().into_iter().collect()
}

/// Let foreign plugins collect their own garbage.
fn forward(role: Role, call: &Invocation, networks: Networks) -> Vec<Error> {
    let around =
        Surroundings { container: "", netns: "", ifname: "", args: "".into(), path: &call.path, lock: None };
    let fields = call.config.fields();
    if role != Role::Ferroband {
        let ipam = fields.ipam_type().ok().flatten().filter(|ipam| !Role::assigns(Some(ipam)));
        let ipam = ipam.filter(|_| role.is_interface());
        let run = |ipam| delegate::run(ipam, Command::Gc, &around, call.config.bytes());
        return ipam.and_then(|ipam| run(ipam).err()).into_iter().collect();
    }
    let wrapped = del::wrapped(fields).filter_map(|network| chain::foreign(network.0, "", true).ok());
    let given = VALID.iter().find_map(|key| fields.get(key)).cloned().unwrap_or_default();
    let mut errors = Vec::new();
    for (mut network, valid) in networks.into_told(wrapped.collect(), given) {
        tell_valid(&mut network, &valid);
        for (plugin, stdin) in networks::calls(&network) {
            let told = delegate::run(&plugin, Command::Gc, &around, &stdin);
            errors.extend(told.err().map(|error| error.on(&network.network)));
        }
    }
    errors
}

fn tell_valid(network: &mut Attachment, valid: &Value) {
    for step in &mut network.steps {
        step.config.extend(VALID.iter().map(|key| ((*key).to_owned(), valid.clone())));
    }
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
