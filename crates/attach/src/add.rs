//! ADD, in each role.
//!
//! ```text
//! ferroband    journal ─ plan from the daemon ─ steps ─ addresses from the daemon ─ status on the pod ─ print
//! ib-sriov, rdma, coordinator: as ipoib
//! ipoib        journal ─ one step ─ addresses from the daemon or an IPAM plugin ────────────────────── print
//! whereabouts  journal ─ addresses from the daemon ─────────────────────────────────────────────────── print
//! ```
//!
//! On a node that is being left, `ferroband` does the steps of the wrapped network alone.

use crate::apply::{AddOperation, read_result};
use crate::daemon::NodeClient;
use crate::del;
use crate::journal::Journal;
use crate::message::{self, DaemonReply, DaemonRequest};
use crate::owed::PendingRelease;
use crate::plan::{Attachment, Plan, PlanStep, StepKind};
use crate::{
    AttachmentId, CniContext, CniResult, CniVersion, Error, Invocation, Lock, PendingUninstall, PluginType,
};
use crate::{args, leave, readiness, sandbox};
use ferroband_model::PodRef;
use serde_json::Value;
use std::io::Write;

/// Attach, and print the result. Whatever fails, nothing is left behind.
pub(crate) fn add(
    machine: &CniContext<'_>,
    role: PluginType,
    call: &Invocation,
    out: &mut dyn Write,
) -> Result<(), Error> {
    // Refused before anything is touched.
    let pod = match role {
        PluginType::Ferroband | PluginType::Whereabouts | PluginType::Spiderpool => {
            args::parse_pod(&call.args)?
        }
        // Upstream's plugin does not look at them.
        PluginType::Ipoib | PluginType::IbSriov | PluginType::Rdma | PluginType::Coordinator => {
            args::parse_pod(&call.args).ok().flatten()
        }
    };
    let alone = role.is_meta() && PendingUninstall::load(machine.root)?.is_some();
    let single = match role.is_meta() {
        true => alone.then(|| leave::wrapped_network(call)).transpose()?,
        false => Some(single_attachment(role, call)?),
    };
    if role.is_meta() {
        readiness::wait(machine, call, machine.timeouts.daemon_connect)?;
    }
    let netns = sandbox::open(call)?;

    let key = AttachmentId::new(role, &call.container, &call.ifname);
    let lock = Lock::acquire(machine.root, &key, machine.timeouts.lock)?;
    let lock = del::clear_previous(machine, &key, call, &netns, lock)?;

    let mut journal = Journal::begin(machine.root, role, call, &netns, pod.clone())?;
    let asked = call_message(call, pod);
    // Written down before the daemon is asked: it starts to assign addresses at once.
    journal.needs_release = match &single {
        None => true,
        Some(attachment) => needs_daemon(role, attachment),
    };
    journal.set_plan(single.into_iter().collect());
    if role.is_chained() {
        let previous = call.config.fields().get("prevResult").ok_or(Error::NoPreviousResult)?;
        journal.entries[0].result = Some(CniResult::read(previous, call.version)?.write(CniVersion::NEWEST)?);
    }
    let mut work = AddOperation::begin(machine, call, journal, netns, lock)?;
    let done = match role {
        PluginType::Ferroband if alone => add_single(&mut work, asked),
        PluginType::Ferroband => add_all_networks(&mut work, asked),
        PluginType::Ipoib | PluginType::IbSriov | PluginType::Rdma | PluginType::Coordinator => {
            add_single(&mut work, asked)
        }
        PluginType::Whereabouts | PluginType::Spiderpool => add_addresses_only(&mut work, asked),
    };
    let printed = done.and_then(|result| {
        let text = result.print(call.version)?;
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        written.map_err(|source| Error::Stdout { source })
    });
    printed.map_err(|cause| work.roll_back(cause))
}

/// The whole pod.
fn add_all_networks(work: &mut AddOperation<'_>, asked: message::CniCall) -> Result<CniResult, Error> {
    let plan = match connect_and_request(work, &DaemonRequest::Add(asked))? {
        DaemonReply::Plan(plan) => plan,
        _ => return Err(Error::UnexpectedReply { wanted: "a plan" }),
    };
    let Plan { pod, attachments, membership } = plan;
    work.membership = membership;
    work.journal.pod = Some(pod);
    work.journal.set_plan(attachments);
    work.preflight()?;
    work.apply()?;

    let default = work.journal.entries.iter().find(|entry| entry.attachment.default);
    let result = default.or(work.journal.entries.first()).map(read_result).transpose()?.unwrap_or_default();
    // What the runtime cannot be told must fail before the pod is told.
    result.write(work.call.version)?;
    work.journal.attached = true;
    work.save()?;
    let attached = DaemonRequest::Attached(work.outcomes()?);
    let unreached = Error::UnexpectedReply { wanted: "a connection" };
    work.daemon.as_mut().ok_or(unreached)?.request_done(work.machine, &attached)?;
    Ok(result)
}

/// One attachment, without a plan of the daemon.
fn add_single(work: &mut AddOperation<'_>, asked: message::CniCall) -> Result<CniResult, Error> {
    work.preflight()?;
    if work.journal.needs_release {
        // Before the interface is made: a daemon that is away costs nothing then.
        request_addresses(work, asked)?;
    }
    work.apply()?;
    save_attached(work)
}

/// Addresses alone.
fn add_addresses_only(work: &mut AddOperation<'_>, asked: message::CniCall) -> Result<CniResult, Error> {
    request_addresses(work, asked)?;
    let given = work.assigned_result(0)?;
    work.journal.entries[0].result = Some(given.write(CniVersion::NEWEST)?);
    save_attached(work)
}

fn save_attached(work: &mut AddOperation<'_>) -> Result<CniResult, Error> {
    work.journal.attached = true;
    work.save()?;
    read_result(work.entry(0))
}

fn request_addresses(work: &mut AddOperation<'_>, asked: message::CniCall) -> Result<(), Error> {
    match connect_and_request(work, &DaemonRequest::Assign(asked))? {
        DaemonReply::Addresses(assigned) => work.journal.assigned = assigned,
        _ => return Err(Error::UnexpectedReply { wanted: "addresses" }),
    }
    Ok(())
}

fn connect_and_request(work: &mut AddOperation<'_>, request: &DaemonRequest) -> Result<DaemonReply, Error> {
    let owed = PendingRelease::new(&work.journal.id(), work.journal.pod.clone());
    // On disk it stays true, for a kill; a daemon that is away is owed nothing for each try.
    work.journal.needs_release = false;
    let held = &mut work.journal.needs_release;
    let (daemon, reply) = NodeClient::connect_and_request(work.machine, &owed, request, &work.netns, held)?;
    work.daemon = Some(daemon);
    Ok(reply)
}

/// The attachment that a plugin called by itself is asked for.
fn single_attachment(role: PluginType, call: &Invocation) -> Result<Attachment, Error> {
    let fields = call.config.fields();
    let ipam = fields.ipam_type()?;
    // The oldest results cannot say that there is no address.
    if role.is_interface() && ipam.is_none() && call.version < CniVersion::V0_3_0 {
        return Err(Error::ResultNeedsAddress { version: call.version });
    }
    let steps = match role {
        PluginType::Ipoib | PluginType::IbSriov | PluginType::Rdma | PluginType::Coordinator => {
            vec![PlanStep { config: call.config.map().clone(), kind: StepKind::for_plugin(role, fields)? }]
        }
        PluginType::Ferroband | PluginType::Whereabouts | PluginType::Spiderpool => Vec::new(),
    };
    let name = call.config.name()?.to_owned();
    Ok(Attachment {
        network: name.clone(),
        name,
        cni_version: call.version.as_str().to_owned(),
        ifname: call.ifname.clone(),
        default: false,
        steps,
        ..Attachment::default()
    })
}

fn needs_daemon(role: PluginType, attachment: &Attachment) -> bool {
    role.is_ipam() || attachment.steps.iter().any(|step| step.kind.uses_daemon_ipam())
}

fn call_message(call: &Invocation, pod: Option<PodRef>) -> message::CniCall {
    message::CniCall {
        container: call.container.clone(),
        ifname: call.ifname.clone(),
        pod,
        config: Value::Object(call.config.map().clone()),
    }
}
