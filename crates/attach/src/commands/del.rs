//! DEL: undoes the journal of an ADD. Without a journal it deletes what the call itself identifies.
//!
//! DEL needs neither the daemon nor the namespace. It fails only if a foreign plugin's DEL or a kernel
//! operation fails. Then the journal stays for a retry.

use crate::commands::sandbox::{SandboxState, needs_permission};
use crate::ipc::plan::Attachment;
use crate::legacy::multus::{self, MultusState};
use crate::protocol::result::CniResult;
use crate::protocol::{
    AttachmentId, CniCommand, CniContext, Error, FailPoint, Invocation, PluginConfig, PluginType, args,
};
use crate::state::Lock;
use crate::state::journal::Journal;
use crate::state::pending_release::PendingRelease;
use crate::state::pending_status::PendingStatus;
use crate::steps::delegate::{self, PluginEnv};
use crate::steps::ipoib;
use crate::steps::undo::{AttachmentTeardown, finish_cleanup};
use crate::steps::vf::{VfOwner, VfTeardown};
use ferroband_kernel::{Link, Netns, RouteSocket, boot_id};
use std::cell::RefCell;

/// Detach a whole sandbox (meta plugin) or one interface (plugin called on its own).
pub(crate) fn del(context: &CniContext<'_>, plugin_type: PluginType, call: &Invocation) -> Result<(), Error> {
    let id = AttachmentId::new(plugin_type, &call.container, &call.ifname);
    let lock = Lock::acquire(context.root, &id, context.timeouts.lock)?;
    let errors = match Journal::load(context.root, &id) {
        Ok(Some(journal)) => undo_journal(context, journal, Some(call), &call.path, lock)?,
        Ok(None) => without_journal(context, plugin_type, call, &id, lock, None)?,
        Err(error) if error.is_damaged_state() => {
            eprintln!("ferroband: {error}; deleting the attachment from the readable part of its journal");
            let salvaged = Journal::salvage(context.root, &id);
            without_journal(context, plugin_type, call, &id, lock, Some(salvaged))?
        }
        Err(error) => return Err(error),
    };
    Error::combine(errors)
}

/// Undo all steps of `journal`. Steps that fail stay in the journal for a retry, and their errors are
/// returned.
pub(crate) fn undo_journal(
    context: &CniContext<'_>,
    mut journal: Journal,
    call: Option<&Invocation>,
    path: &str,
    lock: Lock,
) -> Result<Vec<Error>, Error> {
    let sandbox = SandboxState::from_journal(context.root, call, &journal)?;
    let errors = undo_steps(context, &mut journal, &sandbox, call, path, &lock);
    Ok(finish_cleanup(context, journal, lock, None, errors))
}

/// Prepare for an ADD: undo what an earlier ADD of the same sandbox left behind, as its journal tells. Fails if the
/// earlier ADD is complete and its namespace exists, because the runtime must send a DEL first.
pub(crate) fn clear_previous(
    context: &CniContext<'_>,
    id: &AttachmentId,
    previous: Result<Option<Journal>, Error>,
    call: &Invocation,
    netns: &Netns,
    lock: Lock,
) -> Result<Lock, Error> {
    let again = |context: &CniContext<'_>| Lock::acquire(context.root, id, context.timeouts.lock);
    match previous {
        Ok(None) => Ok(lock),
        // An earlier ADD of an IPAM plugin need not be undone: assigning the same addresses again is
        // harmless.
        Ok(Some(old)) if old.plugin_type.is_ipam() => Ok(lock),
        Ok(Some(old)) => {
            let alive = old.netns_id == netns.id() && old.boot == boot_id(context.root)?;
            if old.attached && alive {
                return Err(Error::AlreadyAttached { container: call.container.clone() });
            }
            Error::combine(undo_journal(context, old, None, &call.path, lock)?)?;
            again(context)
        }
        Err(error) if error.is_damaged_state() => {
            let mut salvaged = Journal::salvage(context.root, id);
            let sandbox = SandboxState::from_journal(context.root, None, &salvaged)?;
            Error::combine(undo_steps(context, &mut salvaged, &sandbox, None, &call.path, &lock))?;
            delete_leftover_links(id, Some(netns), |_| false)?;
            Journal::remove(context.root, id)?;
            Ok(lock)
        }
        Err(error) => Err(error),
    }
}

/// Undo the steps of a journal, or of the readable part of a damaged one. The file stays: if an error is returned, the
/// caller must keep it for a retry.
pub(crate) fn undo_steps(
    context: &CniContext<'_>,
    journal: &mut Journal,
    sandbox: &SandboxState,
    call: Option<&Invocation>,
    path: &str,
    lock: &Lock,
) -> Vec<Error> {
    let teardown = AttachmentTeardown {
        context,
        lock,
        netns: sandbox.netns.as_ref(),
        cni_netns: &sandbox.cni_netns,
        path,
        call,
        daemon: RefCell::default(),
    };
    teardown.run(journal)
}

/// Delete what the call itself identifies, because the journal is missing or damaged. `salvaged` is the readable part
/// of a damaged journal.
fn without_journal(
    context: &CniContext<'_>,
    plugin_type: PluginType,
    call: &Invocation,
    id: &AttachmentId,
    lock: Lock,
    salvaged: Option<Journal>,
) -> Result<Vec<Error>, Error> {
    let sandbox = SandboxState::from_call(call)?;
    let damaged = salvaged.is_some();
    let knows_networks = salvaged.as_ref().is_some_and(|salvaged| !salvaged.entries.is_empty());
    let mut errors = Vec::new();
    if let Some(mut salvaged) = salvaged {
        errors.extend(undo_steps(context, &mut salvaged, &sandbox, Some(call), &call.path, &lock));
    }
    let env = PluginEnv {
        container: &call.container,
        netns: &sandbox.cni_netns,
        ifname: &call.ifname,
        args: call.args.as_str().into(),
        path: &call.path,
        lock: Some(&lock),
    };
    let named = named_interfaces(call);
    let is_owned = |link: &Link| match plugin_type {
        // The sandbox is being deleted, and its IPoIB children would return to the host namespace. Delete
        // them.
        PluginType::Ferroband => damaged && (named.contains(&link.name) || is_ipoib_child(link)),
        // An IPoIB child of this name was created by Ferroband or by the plugin that it replaces. Never
        // delete an interface of another kind: this may be the DEL after an ADD that failed because the name
        // was taken.
        PluginType::Ipoib => link.name == call.ifname && (damaged || is_ipoib_child(link)),
        PluginType::IbSriov
        | PluginType::Rdma
        | PluginType::Coordinator
        | PluginType::Whereabouts
        | PluginType::Spiderpool => false,
    };
    errors.extend(delete_leftover_links(id, sandbox.netns.as_ref(), is_owned).err());
    (context.fail_point)(FailPoint::StepUndone);
    errors.extend(release_devices(context, plugin_type, call, sandbox.netns.as_ref(), damaged));

    let ipam = call.config.interface().ok().and_then(|interface| interface.ipam_plugin);
    match plugin_type {
        // The foreign plugins were called from the journal.
        _ if knows_networks => {}
        PluginType::Ferroband => {
            let version = call.version.as_str();
            // A sandbox attached by upstream Multus has state files of Multus. Any other sandbox from before
            // Ferroband has at most the wrapped network.
            errors.extend(match MultusState::load(context.root, &call.container, &call.ifname, version) {
                Some(multus) => multus.delete(context, call, &env, del),
                None => del_wrapped(&call.config, &env).into_iter().flatten().collect(),
            });
        }
        PluginType::Ipoib | PluginType::IbSriov => match ipam {
            None | Some("dhcp") => {}
            ipam if PluginType::is_daemon_ipam(ipam) => {}
            Some(ipam) => {
                errors.extend(delegate::run(ipam, CniCommand::Del, &env, call.config.bytes()).err());
            }
        },
        PluginType::Rdma | PluginType::Coordinator | PluginType::Whereabouts | PluginType::Spiderpool => {}
    }
    let needs_release = match plugin_type {
        PluginType::Ferroband => damaged,
        PluginType::Rdma | PluginType::Coordinator => false,
        PluginType::Ipoib | PluginType::IbSriov => {
            PluginType::is_daemon_ipam(ipam) || needs_permission(context.root, plugin_type, &call.config)
        }
        PluginType::Whereabouts | PluginType::Spiderpool => true,
    };
    if needs_release && errors.is_empty() {
        let release = PendingRelease::new(id, args::parse_pod(&call.args).ok().flatten());
        errors.extend(release.send_or_queue(context, None).err());
    }
    if errors.is_empty() {
        PendingStatus::new(id.clone()).remove(context.root)?;
        Journal::remove(context.root, id)?;
        (context.fail_point)(FailPoint::JournalRemoved);
        lock.release_and_remove();
    }
    Ok(errors)
}

/// Move the functions and RDMA devices that leases or upstream's state files assign to the sandbox back to
/// the host.
fn release_devices(
    context: &CniContext<'_>,
    plugin_type: PluginType,
    call: &Invocation,
    netns: Option<&Netns>,
    damaged: bool,
) -> Vec<Error> {
    let of_call = |owner: &VfOwner| match plugin_type {
        PluginType::Ferroband => damaged && owner.container == call.container,
        PluginType::IbSriov => owner.container == call.container && owner.ifname == call.ifname,
        _ => false,
    };
    let mut errors = VfTeardown::run_matching(context, netns, of_call);
    errors.extend(match plugin_type {
        PluginType::IbSriov => multus::return_vf(context, call, netns).err(),
        PluginType::Rdma => multus::return_rdma_device(context, call, netns).err(),
        _ => None,
    });
    errors
}

/// Delete interfaces of `id` that still have temporary names, and those in the sandbox for which `is_owned` holds.
pub(crate) fn delete_leftover_links(
    id: &AttachmentId,
    netns: Option<&Netns>,
    is_owned: impl Fn(&Link) -> bool,
) -> Result<(), Error> {
    let prefix = ipoib::temporary_prefix(&id.file_stem());
    let temporary = |link: &Link| link.name.len() == 15 && link.name.starts_with(&prefix);
    ipoib::delete_links(&mut RouteSocket::open()?, temporary)?;
    if let Some(netns) = netns {
        ipoib::delete_links(&mut RouteSocket::open_in(netns)?, |link| temporary(link) || is_owned(link))?;
    }
    Ok(())
}

fn del_wrapped(config: &PluginConfig, env: &PluginEnv<'_>) -> Option<Vec<Error>> {
    let network = Attachment::foreign(config.wrapped_networks().next()?, env.ifname, true).ok()?;
    let run = |step| {
        let stdin = network.stdin(step, config.prev_result());
        delegate::run(step.plugin(), CniCommand::Del, env, &stdin)
    };
    Some(network.steps.iter().rev().filter_map(|step| run(step).err()).collect())
}

/// Names of the call's interface and of all interfaces in its `prevResult`.
fn named_interfaces(call: &Invocation) -> Vec<String> {
    let previous = call.config.prev_result();
    let result = previous.and_then(|previous| CniResult::read(previous, call.version).ok());
    let interfaces = result.map(|result| result.interfaces).unwrap_or_default();
    let in_sandbox = interfaces.into_iter().filter(|interface| !interface.sandbox.is_empty());
    in_sandbox.map(|interface| interface.name).chain([call.ifname.clone()]).collect()
}

fn is_ipoib_child(link: &Link) -> bool {
    link.ipoib.is_some() && link.parent.is_some()
}
