//! GC: removes everything that does not belong to a valid attachment.
//!
//! Attachments are found in the journals and in the state files of upstream Multus. Each stale sandbox is
//! deleted under its own lock, exactly as by DEL. Then GC is forwarded to the foreign plugins: those of the
//! wrapped networks and those of all networks in the journals, each with the attachments that are valid on
//! its network.

use crate::commands::del;
use crate::commands::sandbox::SandboxState;
use crate::ipc::plan::Attachment;
use crate::legacy::multus::{self, MultusState};
use crate::protocol::{AttachmentId, CniCommand, CniContext, Error, Invocation, PluginType};
use crate::state::Lock;
use crate::state::journal::{Journal, JournalFile};
use crate::state::pending_release::PendingRelease;
use crate::state::pending_status::PendingStatus;
use crate::steps::delegate::{self, PluginEnv};
use crate::steps::vf::VfTeardown;
use ferroband_config::set_valid_attachments;

mod networks;

use networks::GcNetworks;

/// Remove everything that is not in the list of valid attachments, continuing after errors.
pub(crate) fn gc(context: &CniContext<'_>, plugin_type: PluginType, call: &Invocation) -> Result<(), Error> {
    if call.config.is_gc_disabled()? {
        return Ok(());
    }
    let valid = call.config.valid_attachments()?;
    let network = call.config.name()?;
    let mut errors = Vec::new();
    let mut networks = GcNetworks::default();
    for JournalFile { stem, journal } in Journal::list(context.root)? {
        let Some(id) = id_of_plugin(&stem, plugin_type) else { continue };
        match journal {
            Ok(journal) if journal.network != network => {}
            Ok(journal) => {
                let is_valid = valid.contains(&(journal.container.clone(), journal.ifname.clone()));
                networks.record(
                    &journal.container,
                    journal.entries.iter().map(|one| &one.attachment),
                    is_valid,
                );
                if !is_valid {
                    errors.extend(collect_journal(context, call, &id));
                }
            }
            Err(error) if error.is_damaged_state() => {
                let salvaged = Journal::salvage(context.root, &id);
                if !salvaged.network.is_empty() && salvaged.network != network {
                    continue;
                }
                let is_valid = valid.iter().any(|(container, _)| container == id.container());
                networks.record_damaged(&salvaged, is_valid);
                if !is_valid {
                    errors.extend(collect_damaged(context, call, &id, salvaged));
                }
            }
            Err(error) => errors.push(error),
        }
    }
    errors.extend(collect_functions(context, plugin_type, &valid));
    if plugin_type.is_meta() {
        errors.extend(collect_upstream(context, call, &valid, &mut networks));
    }
    errors.extend(forward(plugin_type, call, networks));
    Error::combine(errors)
}

/// The attachment with the file stem `stem`, if it belongs to this plugin.
fn id_of_plugin(stem: &str, plugin_type: PluginType) -> Option<AttachmentId> {
    let expected = (!plugin_type.is_meta()).then_some(plugin_type);
    AttachmentId::from_stem(stem).filter(|id| id.plugin_type() == expected)
}

/// Delete the sandboxes of upstream Multus that are not in the list of valid attachments.
fn collect_upstream(
    context: &CniContext<'_>,
    call: &Invocation,
    valid: &[(String, String)],
    networks: &mut GcNetworks,
) -> Vec<Error> {
    let mut errors = Vec::new();
    for container in multus::list_containers(context.root) {
        let of_container = valid.iter().find(|(known, _)| *known == container);
        // Multus' files do not contain the name of the default interface; eth0 is Multus' default.
        let ifname = of_container.map_or("eth0", |(_, ifname)| ifname.as_str());
        let find = || MultusState::load(context.root, &container, ifname, call.version.as_str());
        let Some(multus) = find() else { continue };
        networks.record(&container, multus.attachments(), of_container.is_some());
        if of_container.is_some() {
            continue;
        }
        let id = AttachmentId::new(PluginType::Ferroband, &container, ifname);
        match Lock::acquire(context.root, &id, context.timeouts.best_effort) {
            Ok(lock) => {
                let env = PluginEnv {
                    container: &container,
                    netns: "",
                    ifname,
                    args: "".into(),
                    path: &call.path,
                    lock: Some(&lock),
                };
                let failed = find().map_or(Vec::new(), |multus| multus.delete(context, call, &env, del::del));
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

/// Restore virtual functions whose owner has no journal and is not in the list of valid attachments.
fn collect_functions(
    context: &CniContext<'_>,
    plugin_type: PluginType,
    valid: &[(String, String)],
) -> Vec<Error> {
    VfTeardown::run_matching(context, None, |owner| {
        let Some(id) = id_of_plugin(&owner.stem, plugin_type) else { return false };
        let known = matches!(Journal::load(context.root, &id), Ok(Some(_)) | Err(_));
        !known && !valid.iter().any(|(container, _)| *container == owner.container)
    })
}

fn collect_journal(context: &CniContext<'_>, call: &Invocation, id: &AttachmentId) -> Vec<Error> {
    let collected = Lock::acquire(context.root, id, context.timeouts.best_effort).and_then(|lock| {
        // The journal may have been deleted before this call got the lock.
        match Journal::load(context.root, id)? {
            Some(journal) => del::undo_journal(context, journal, None, &call.path, lock),
            None => Ok(Vec::new()),
        }
    });
    collected.unwrap_or_else(|error| vec![error])
}

/// Clean up after a damaged journal, of which only the file name and the salvaged part are known.
fn collect_damaged(
    context: &CniContext<'_>,
    call: &Invocation,
    id: &AttachmentId,
    mut salvaged: Journal,
) -> Vec<Error> {
    let collected = Lock::acquire(context.root, id, context.timeouts.best_effort).and_then(|lock| {
        let sandbox = SandboxState::from_journal(context.root, None, &salvaged)?;
        Error::combine(del::undo_steps(context, &mut salvaged, &sandbox, None, &call.path, &lock))?;
        del::delete_leftover_links(id, None, |_| false)?;
        Error::combine(VfTeardown::run_matching(context, None, |owner| owner.stem == id.file_stem()))?;
        PendingRelease::new(id, None).send_or_queue(context, None)?;
        PendingStatus::new(id.clone()).remove(context.root)?;
        Journal::remove(context.root, id)?;
        lock.release_and_remove();
        Ok(())
    });
    collected.err().into_iter().collect()
}

/// Run GC of the foreign plugins, each with the valid attachments of its network.
fn forward(plugin_type: PluginType, call: &Invocation, networks: GcNetworks) -> Vec<Error> {
    let env =
        PluginEnv { container: "", netns: "", ifname: "", args: "".into(), path: &call.path, lock: None };
    if plugin_type != PluginType::Ferroband {
        let interface = call.config.interface().ok().filter(|_| plugin_type.is_interface());
        let ipam = interface.filter(|interface| !interface.uses_daemon_ipam()).and_then(|of| of.ipam_plugin);
        let run = |ipam| delegate::run(ipam, CniCommand::Gc, &env, call.config.bytes());
        return ipam.and_then(|ipam| run(ipam).err()).into_iter().collect();
    }
    let wrapped = call.config.wrapped_networks();
    let wrapped = wrapped.filter_map(|network| Attachment::foreign(network, "", true).ok());
    let runtime_list = call.config.valid_attachments_value().cloned().unwrap_or_default();
    let mut errors = Vec::new();
    for (mut network, valid) in networks.into_gc_lists(wrapped.collect(), runtime_list) {
        for step in &mut network.steps {
            set_valid_attachments(&mut step.config, &valid);
        }
        for (plugin, stdin) in networks::plugin_calls(&network) {
            let result = delegate::run(&plugin, CniCommand::Gc, &env, &stdin);
            errors.extend(result.err().map(|error| error.on_network(&network.network)));
        }
    }
    errors
}
