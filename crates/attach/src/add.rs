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

use crate::apply::{Work, read_result};
use crate::daemon::Daemon;
use crate::del;
use crate::journal::Journal;
use crate::message::{self, Reply, Request};
use crate::owed::Owed;
use crate::plan::{Attachment, Doer, Plan, Step};
use crate::{CniResult, Error, Invocation, Key, Leaving, Lock, Machine, Role, Version};
use crate::{args, leave, readiness, sandbox};
use ferroband_model::PodRef;
use serde_json::Value;
use std::io::Write;

/// Attach, and print the result. Whatever fails, nothing is left behind.
pub(crate) fn add(
    machine: &Machine<'_>,
    role: Role,
    call: &Invocation,
    out: &mut dyn Write,
) -> Result<(), Error> {
    // Refused before anything is touched.
    let pod = match role {
        Role::Ferroband | Role::Whereabouts | Role::Spiderpool => args::pod(&call.args)?,
        // Upstream's plugin does not look at them.
        Role::Ipoib | Role::IbSriov | Role::Rdma | Role::Coordinator => args::pod(&call.args).ok().flatten(),
    };
    let alone = role.is_meta() && Leaving::load(machine.root)?.is_some();
    let single = match role.is_meta() {
        true => alone.then(|| leave::wrapped(call)).transpose()?,
        false => Some(attachment(role, call)?),
    };
    if role.is_meta() {
        readiness::wait(machine, call, machine.patience.daemon)?;
    }
    let netns = sandbox::open(call)?;

    let key = Key::new(role, &call.container, &call.ifname);
    let lock = Lock::take(machine.root, &key, machine.patience.lock)?;
    let lock = del::clear(machine, &key, call, &netns, lock)?;

    let mut journal = Journal::begin(machine.root, role, call, &netns, pod.clone())?;
    let asked = message_of(call, pod);
    // Written down before the daemon is asked: it starts to assign addresses at once.
    journal.daemon = match &single {
        None => true,
        Some(attachment) => needs_daemon(role, attachment),
    };
    journal.plan(single.into_iter().collect());
    if role.is_chained() {
        let previous = call.config.fields().get("prevResult").ok_or(Error::NoPreviousResult)?;
        journal.entries[0].result = Some(CniResult::read(previous, call.version)?.write(Version::NEWEST)?);
    }
    let mut work = Work::begin(machine, call, journal, netns, lock)?;
    let done = match role {
        Role::Ferroband if alone => interface(&mut work, asked),
        Role::Ferroband => meta(&mut work, asked),
        Role::Ipoib | Role::IbSriov | Role::Rdma | Role::Coordinator => interface(&mut work, asked),
        Role::Whereabouts | Role::Spiderpool => addresses(&mut work, asked),
    };
    let printed = done.and_then(|result| {
        let text = result.print(call.version)?;
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        written.map_err(|source| Error::Stdout { source })
    });
    printed.map_err(|cause| work.abandon(cause))
}

/// The whole pod.
fn meta(work: &mut Work<'_>, asked: message::Call) -> Result<CniResult, Error> {
    let plan = match reach(work, &Request::Add(asked))? {
        Reply::Plan(plan) => plan,
        _ => return Err(Error::Unexpected { wanted: "a plan" }),
    };
    let Plan { pod, attachments, membership } = plan;
    work.membership = membership;
    work.journal.pod = Some(pod);
    work.journal.plan(attachments);
    work.check()?;
    work.carry_out()?;

    let default = work.journal.entries.iter().find(|entry| entry.attachment.default);
    let result = default.or(work.journal.entries.first()).map(read_result).transpose()?.unwrap_or_default();
    // What the runtime cannot be told must fail before the pod is told.
    result.write(work.call.version)?;
    work.journal.attached = true;
    work.save()?;
    let attached = Request::Attached(work.outcomes()?);
    let unreached = Error::Unexpected { wanted: "a connection" };
    work.daemon.as_mut().ok_or(unreached)?.tell(work.machine, &attached)?;
    Ok(result)
}

/// One attachment, without a plan of the daemon.
fn interface(work: &mut Work<'_>, asked: message::Call) -> Result<CniResult, Error> {
    work.check()?;
    if work.journal.daemon {
        // Before the interface is made: a daemon that is away costs nothing then.
        take_assigned(work, asked)?;
    }
    work.carry_out()?;
    finish(work)
}

/// Addresses alone.
fn addresses(work: &mut Work<'_>, asked: message::Call) -> Result<CniResult, Error> {
    take_assigned(work, asked)?;
    let given = work.given(0)?;
    work.journal.entries[0].result = Some(given.write(Version::NEWEST)?);
    finish(work)
}

fn finish(work: &mut Work<'_>) -> Result<CniResult, Error> {
    work.journal.attached = true;
    work.save()?;
    read_result(work.entry(0))
}

fn take_assigned(work: &mut Work<'_>, asked: message::Call) -> Result<(), Error> {
    match reach(work, &Request::Assign(asked))? {
        Reply::Addresses(assigned) => work.journal.assigned = assigned,
        _ => return Err(Error::Unexpected { wanted: "addresses" }),
    }
    Ok(())
}

fn reach(work: &mut Work<'_>, request: &Request) -> Result<Reply, Error> {
    let owed = Owed::new(&work.journal.key(), work.journal.pod.clone());
    // On disk it stays true, for a kill; a daemon that is away is owed nothing for each try.
    work.journal.daemon = false;
    let held = &mut work.journal.daemon;
    let (daemon, reply) = Daemon::open(work.machine, &owed, request, &work.netns, held)?;
    work.daemon = Some(daemon);
    Ok(reply)
}

/// The attachment that a plugin called by itself is asked for.
fn attachment(role: Role, call: &Invocation) -> Result<Attachment, Error> {
    let fields = call.config.fields();
    let ipam = fields.ipam_type()?;
    // The oldest results cannot say that there is no address.
    if role.is_interface() && ipam.is_none() && call.version < Version::V0_3_0 {
        return Err(Error::NoAddressToTell { version: call.version });
    }
    let steps = match role {
        Role::Ipoib | Role::IbSriov | Role::Rdma | Role::Coordinator => {
            vec![Step { config: call.config.map().clone(), by: Doer::of_plugin(role, fields)? }]
        }
        Role::Ferroband | Role::Whereabouts | Role::Spiderpool => Vec::new(),
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

fn needs_daemon(role: Role, attachment: &Attachment) -> bool {
    role.is_ipam() || attachment.steps.iter().any(|step| step.by.is_addressed())
}

fn message_of(call: &Invocation, pod: Option<PodRef>) -> message::Call {
    message::Call {
        container: call.container.clone(),
        ifname: call.ifname.clone(),
        pod,
        config: Value::Object(call.config.map().clone()),
    }
}
