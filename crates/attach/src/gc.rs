//! GC: remove what belongs to no attachment that the runtime still knows.
//!
//! Our journals are the evidence, and the files of upstream Multus for what it left. Each sandbox is undone under its
//! own lock, exactly as a DEL would. Then the foreign plugins hear of it: those that the configuration wraps, and those
//! of all networks that the journals name, each with what is valid on its network.

use crate::delegate::{self, PluginEnv};
use crate::journal::{Journal, JournalFile};
use crate::owed::PendingRelease;
use crate::plan::Attachment;
use crate::upstream::{self, MultusState};
use crate::vf::VfTeardown;
use crate::{AttachmentId, CniCommand, CniContext, Error, Invocation, Lock, PluginType, chain, daemon, del};
use serde_json::Value;

mod networks;

use networks::GcNetworks;

/// Both names of the list: libcni sends it under the second as well, which was a mistake of its first release.
const VALID_ATTACHMENTS_KEYS: [&str; 2] = ["cni.dev/valid-attachments", "cni.dev/attachments"];

/// Remove what is not in the list of valid attachments. Failures do not stop it.
pub(crate) fn gc(machine: &CniContext<'_>, role: PluginType, call: &Invocation) -> Result<(), Error> {
    let fields = call.config.fields();
    if fields.flag("disableGC")? {
        return Ok(());
    }
    let valid = valid_attachments(call)?;
    let network = call.config.name()?;
    let mut errors = Vec::new();
    let mut networks = GcNetworks::default();
    for JournalFile { stem, journal } in Journal::list(machine.root)? {
        let of_role = |key: &AttachmentId| key.plugin_type() == (!role.is_meta()).then_some(role);
        let Some(key) = AttachmentId::from_stem(&stem).filter(of_role) else { continue };
        match journal {
            Ok(journal) if journal.network != network => {}
            Ok(journal) => {
                let stays = valid.contains(&(journal.container.clone(), journal.ifname.clone()));
                networks.record(&journal.container, journal.entries.iter().map(|one| &one.attachment), stays);
                if !stays {
                    errors.extend(collect_journal(machine, call, &key));
                }
            }
            Err(error) if error.is_damaged_state() => {
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
    Error::combine(errors)
}

/// Sandboxes that upstream Multus attached.
fn collect_upstream(
    machine: &CniContext<'_>,
    call: &Invocation,
    valid: &[(String, String)],
    networks: &mut GcNetworks,
) -> Vec<Error> {
    let mut errors = Vec::new();
    for container in upstream::list_containers(machine.root) {
        let of_container = valid.iter().find(|(known, _)| *known == container);
        // Its files do not tell the name of the default interface; without one Multus takes this.
        let ifname = of_container.map_or("eth0", |(_, ifname)| ifname.as_str());
        let find = || MultusState::load(machine.root, &container, ifname, call.version.as_str());
        let Some(left) = find() else { continue };
        networks.record(&container, left.attachments(), of_container.is_some());
        if of_container.is_some() {
            continue;
        }
        let key = AttachmentId::new(PluginType::Ferroband, &container, ifname);
        match Lock::acquire(machine.root, &key, machine.timeouts.best_effort) {
            Ok(lock) => {
                let around = PluginEnv {
                    container: &container,
                    netns: "",
                    ifname,
                    args: "".into(),
                    path: &call.path,
                    lock: Some(&lock),
                };
                let failed = find().map_or(Vec::new(), |left| left.delete(machine, call, &around));
                if failed.is_empty() {
                    lock.release_and_remove();
                }
                errors.extend(failed);
            }
            Err(error) => errors.push(error),
        }
    }
    errors
}

/// Functions of sandboxes whose journal is gone.
fn collect_functions(machine: &CniContext<'_>, role: PluginType, valid: &[(String, String)]) -> Vec<Error> {
    let of_role = |key: &AttachmentId| key.plugin_type() == (!role.is_meta()).then_some(role);
    VfTeardown::run_matching(machine, None, |owner| {
        let Some(key) = AttachmentId::from_stem(&owner.stem).filter(of_role) else { return false };
        let known = matches!(Journal::load(machine.root, &key), Ok(Some(_)) | Err(_));
        !known && !valid.iter().any(|(container, _)| *container == owner.container)
    })
}

fn collect_journal(machine: &CniContext<'_>, call: &Invocation, key: &AttachmentId) -> Vec<Error> {
    let collected = Lock::acquire(machine.root, key, machine.timeouts.best_effort).and_then(|lock| {
        // It may have been deleted since it was listed.
        match Journal::load(machine.root, key)? {
            Some(journal) => del::undo_journal(machine, journal, None, &call.path, lock),
            None => Ok(Vec::new()),
        }
    });
    collected.unwrap_or_else(|error| vec![error])
}

/// Nothing is known but the name of the file.
fn collect_damaged(machine: &CniContext<'_>, key: &AttachmentId) -> Vec<Error> {
    let collected = Lock::acquire(machine.root, key, machine.timeouts.best_effort).and_then(|lock| {
        del::delete_leftover_links(key, None, |_| false)?;
        Error::combine(VfTeardown::run_matching(machine, None, |owner| owner.stem == key.file_stem()))?;
        daemon::release_or_queue(machine, &PendingRelease::new(key, None), None)?;
        Journal::remove(machine.root, key)?;
        lock.release_and_remove();
        Ok(())
    });
    collected.err().into_iter().collect()
}

/// Let foreign plugins collect their own garbage.
fn forward(role: PluginType, call: &Invocation, networks: GcNetworks) -> Vec<Error> {
    let around =
        PluginEnv { container: "", netns: "", ifname: "", args: "".into(), path: &call.path, lock: None };
    let fields = call.config.fields();
    if role != PluginType::Ferroband {
        let ipam = fields.ipam_type().ok().flatten().filter(|ipam| !PluginType::is_daemon_ipam(Some(ipam)));
        let ipam = ipam.filter(|_| role.is_interface());
        let run = |ipam| delegate::run(ipam, CniCommand::Gc, &around, call.config.bytes());
        return ipam.and_then(|ipam| run(ipam).err()).into_iter().collect();
    }
    let wrapped =
        del::wrapped_networks(fields).filter_map(|network| chain::parse_foreign(network.0, "", true).ok());
    let given = VALID_ATTACHMENTS_KEYS.iter().find_map(|key| fields.get(key)).cloned().unwrap_or_default();
    let mut errors = Vec::new();
    for (mut network, valid) in networks.into_gc_lists(wrapped.collect(), given) {
        set_valid_attachments(&mut network, &valid);
        for (plugin, stdin) in networks::plugin_calls(&network) {
            let told = delegate::run(&plugin, CniCommand::Gc, &around, &stdin);
            errors.extend(told.err().map(|error| error.on_network(&network.network)));
        }
    }
    errors
}

fn set_valid_attachments(network: &mut Attachment, valid: &Value) {
    for step in &mut network.steps {
        step.config.extend(VALID_ATTACHMENTS_KEYS.iter().map(|key| ((*key).to_owned(), valid.clone())));
    }
}

/// The attachments that the runtime knows. Without the list nothing is removed: an absent one is not an empty one.
fn valid_attachments(call: &Invocation) -> Result<Vec<(String, String)>, Error> {
    let fields = call.config.fields();
    let wrong = || Error::Field {
        field: VALID_ATTACHMENTS_KEYS[0].to_owned(),
        wanted: "a list of objects with `containerID` and `ifname`",
    };
    let list = VALID_ATTACHMENTS_KEYS
        .iter()
        .find_map(|key| fields.get(key))
        .and_then(Value::as_array)
        .ok_or_else(wrong)?;
    list.iter()
        .map(|one| {
            let one = crate::ConfigFields(one.as_object()?);
            let text = |key| one.text(key).ok().flatten().map(str::to_owned);
            Some((text("containerID")?, text("ifname")?))
        })
        .collect::<Option<_>>()
        .ok_or_else(wrong)
}
