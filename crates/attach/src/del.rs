//! DEL: from the journal, and without one as well as it can be done.
//!
//! It needs neither the daemon nor the namespace. Only two things make it fail: a foreign plugin's DEL that
//! fails, and a kernel that refuses. Then the journal stays for the next try.

use crate::config::ConfigFields;
use crate::delegate::{self, PluginEnv};
use crate::journal::Journal;
use crate::owed::PendingRelease;
use crate::result::CniResult;
use crate::sandbox::SandboxState;
use crate::undo::{AttachmentTeardown, finish_cleanup};
use crate::upstream::{self, MultusState};
use crate::vf::{VfOwner, VfTeardown};
use crate::{
    AttachmentId, CniCommand, CniContext, Error, FailPoint, Invocation, Lock, PluginType, args, chain,
    daemon, ipoib,
};
use ferroband_kernel::{Link, Netns, RouteSocket, boot_id};
use serde_json::Value;
use std::cell::RefCell;

/// Detach.
pub(crate) fn del(machine: &CniContext<'_>, role: PluginType, call: &Invocation) -> Result<(), Error> {
    let key = AttachmentId::new(role, &call.container, &call.ifname);
    let lock = Lock::acquire(machine.root, &key, machine.timeouts.lock)?;
    let errors = match Journal::load(machine.root, &key) {
        Ok(Some(journal)) => undo_journal(machine, journal, Some(call), &call.path, lock)?,
        Ok(None) => without_journal(machine, role, call, &key, lock, false)?,
        Err(error) if error.is_damaged_state() => {
            eprintln!("ferroband: {error}; deleting what can be known without it");
            without_journal(machine, role, call, &key, lock, true)?
        }
        Err(error) => return Err(error),
    };
    Error::combine(errors)
}

/// Undo what `journal` says.
pub(crate) fn undo_journal(
    machine: &CniContext<'_>,
    mut journal: Journal,
    call: Option<&Invocation>,
    path: &str,
    lock: Lock,
) -> Result<Vec<Error>, Error> {
    let remains = SandboxState::from_journal(machine.root, call, &journal)?;
    let undoing = AttachmentTeardown {
        machine,
        lock: &lock,
        netns: remains.netns.as_ref(),
        cni_netns: &remains.cni_netns,
        path,
        call,
        daemon: RefCell::default(),
    };
    let errors = undoing.run(&mut journal);
    Ok(finish_cleanup(machine, journal, lock, None, errors))
}

/// Make room for an ADD: undo what an earlier one of the same sandbox left. One that is attached and alive
/// must be deleted first, by the runtime.
pub(crate) fn clear_previous(
    machine: &CniContext<'_>,
    key: &AttachmentId,
    call: &Invocation,
    netns: &Netns,
    lock: Lock,
) -> Result<Lock, Error> {
    let again = |machine: &CniContext<'_>| Lock::acquire(machine.root, key, machine.timeouts.lock);
    match Journal::load(machine.root, key) {
        Ok(None) => Ok(lock),
        // Assigning again what is assigned is harmless.
        Ok(Some(old)) if old.plugin_type.is_ipam() => Ok(lock),
        Ok(Some(old)) => {
            let alive = old.netns_id == netns.id() && old.boot == boot_id(machine.root)?;
            if old.attached && alive {
                return Err(Error::AlreadyAttached { container: call.container.clone() });
            }
            Error::combine(undo_journal(machine, old, None, &call.path, lock)?)?;
            again(machine)
        }
        Err(error) if error.is_damaged_state() => {
            delete_leftover_links(key, Some(netns), |_| false)?;
            Journal::remove(machine.root, key)?;
            Ok(lock)
        }
        Err(error) => Err(error),
    }
}

/// What can be done when only the call is known: nothing of ours was recorded, or the record is `damaged`.
fn without_journal(
    machine: &CniContext<'_>,
    role: PluginType,
    call: &Invocation,
    key: &AttachmentId,
    lock: Lock,
    damaged: bool,
) -> Result<Vec<Error>, Error> {
    let remains = SandboxState::from_call(call)?;
    let around = PluginEnv {
        container: &call.container,
        netns: &remains.cni_netns,
        ifname: &call.ifname,
        args: call.args.as_str().into(),
        path: &call.path,
        lock: Some(&lock),
    };
    let mut errors = Vec::new();
    let named = named_interfaces(call);
    let ours = |link: &Link| match role {
        // The sandbox is being torn down: its IPoIB children would come back to the host with its end.
        PluginType::Ferroband => damaged && (named.contains(&link.name) || is_ipoib_child(link)),
        // Made by the plugin that we replace, or by us. Never an interface of another kind: this may be the DEL
        // after an ADD that failed because the name was taken.
        PluginType::Ipoib => link.name == call.ifname && (damaged || is_ipoib_child(link)),
        PluginType::IbSriov
        | PluginType::Rdma
        | PluginType::Coordinator
        | PluginType::Whereabouts
        | PluginType::Spiderpool => false,
    };
    errors.extend(delete_leftover_links(key, remains.netns.as_ref(), ours).err());
    (machine.fail_point)(FailPoint::StepUndone);
    errors.extend(release_devices(machine, role, call, remains.netns.as_ref(), damaged));

    let fields = call.config.fields();
    let ipam = fields.ipam_type().ok().flatten();
    match role {
        PluginType::Ferroband => {
            let version = call.version.as_str();
            // A sandbox of upstream Multus has its files; any other from before us has at most the network that
            // the configuration wraps.
            errors.extend(match MultusState::load(machine.root, &call.container, &call.ifname, version) {
                Some(left) => left.delete(machine, call, &around),
                None => del_wrapped(fields, &around).into_iter().flatten().collect(),
            });
        }
        PluginType::Ipoib | PluginType::IbSriov => match ipam {
            None | Some("dhcp") => {}
            ipam if PluginType::is_daemon_ipam(ipam) => {}
            Some(ipam) => {
                errors.extend(delegate::run(ipam, CniCommand::Del, &around, call.config.bytes()).err());
            }
        },
        PluginType::Rdma | PluginType::Coordinator | PluginType::Whereabouts | PluginType::Spiderpool => {}
    }
    let held = match role {
        PluginType::Ferroband => damaged,
        PluginType::Rdma | PluginType::Coordinator => false,
        PluginType::Ipoib | PluginType::IbSriov => PluginType::is_daemon_ipam(ipam),
        PluginType::Whereabouts | PluginType::Spiderpool => true,
    };
    if held && errors.is_empty() {
        let owed = PendingRelease::new(key, args::parse_pod(&call.args).ok().flatten());
        errors.extend(daemon::release_or_queue(machine, &owed, None).err());
    }
    if errors.is_empty() {
        Journal::remove(machine.root, key)?;
        (machine.fail_point)(FailPoint::JournalRemoved);
        lock.release_and_remove();
    }
    Ok(errors)
}

/// Take back the functions and RDMA devices that records beside the journal, or upstream's files, say the sandbox has.
fn release_devices(
    machine: &CniContext<'_>,
    role: PluginType,
    call: &Invocation,
    netns: Option<&Netns>,
    damaged: bool,
) -> Vec<Error> {
    let of_call = |owner: &VfOwner| match role {
        PluginType::Ferroband => damaged && owner.container == call.container,
        PluginType::IbSriov => owner.container == call.container && owner.ifname == call.ifname,
        _ => false,
    };
    let mut errors = VfTeardown::run_matching(machine, netns, of_call);
    errors.extend(match role {
        PluginType::IbSriov => upstream::return_vf(machine, call, netns).err(),
        PluginType::Rdma => upstream::return_rdma_device(machine, call, netns).err(),
        _ => None,
    });
    errors
}

/// Delete the half-made interfaces of `key`, and in the sandbox those that are `ours`.
pub(crate) fn delete_leftover_links(
    key: &AttachmentId,
    netns: Option<&Netns>,
    ours: impl Fn(&Link) -> bool,
) -> Result<(), Error> {
    let prefix = ipoib::temporary_prefix(&key.file_stem());
    let temporary = |link: &Link| link.name.len() == 15 && link.name.starts_with(&prefix);
    ipoib::delete_links(&mut RouteSocket::open()?, temporary)?;
    if let Some(netns) = netns {
        ipoib::delete_links(&mut RouteSocket::open_in(netns)?, |link| temporary(link) || ours(link))?;
    }
    Ok(())
}

/// The networks that the configuration itself wraps, for sandboxes from before we were installed.
pub(crate) fn wrapped_networks<'a>(fields: ConfigFields<'a>) -> impl Iterator<Item = ConfigFields<'a>> {
    let delegates = fields.list("delegates").ok().flatten().into_iter().flatten();
    delegates.filter_map(Value::as_object).map(ConfigFields)
}

fn del_wrapped(fields: ConfigFields<'_>, around: &PluginEnv<'_>) -> Option<Vec<Error>> {
    let network = chain::parse_foreign(wrapped_networks(fields).next()?.0, around.ifname, true).ok()?;
    let run = |step| {
        let stdin = chain::build_stdin(&network, step, fields.get("prevResult"));
        delegate::run(step.plugin(), CniCommand::Del, around, &stdin)
    };
    Some(network.steps.iter().rev().filter_map(|step| run(step).err()).collect())
}

/// The interfaces that the call names: its own, and those of the result that it carries.
fn named_interfaces(call: &Invocation) -> Vec<String> {
    let previous = call.config.fields().get("prevResult");
    let result = previous.and_then(|previous| CniResult::read(previous, call.version).ok());
    let interfaces = result.map(|result| result.interfaces).unwrap_or_default();
    let inside = interfaces.into_iter().filter(|interface| !interface.sandbox.is_empty());
    inside.map(|interface| interface.name).chain([call.ifname.clone()]).collect()
}

fn is_ipoib_child(link: &Link) -> bool {
    link.ipoib.is_some() && link.parent.is_some()
}
