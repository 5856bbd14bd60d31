//! One connection: one CNI call.

use super::Decider;
use crate::{address::Mode, plan::Wanted};
use ferroband_attach::{
    message::{Reply, Request},
    plan::{Assigned, Plan},
    socket::{Channel, ChannelError},
};
use ferroband_kernel::Netns;
use ferroband_model::{Fault, FaultCode, PodRef};
use std::{os::fd::OwnedFd, time::Duration};
use tokio::{runtime::Handle, task::JoinHandle};
use tracing::{Span, debug, info, info_span, warn};

/// How long the first message may take; it is sent right after connecting.
const GREETING: Duration = Duration::from_secs(10);
/// How long the CNI side may be busy between two messages: foreign plugins take their time, and the kubelet gives
/// up after four minutes (its runtime request timeout is two, doubled).
const BUSY: Duration = Duration::from_secs(300);

/// What is under way on this connection.
struct Adding {
    /// The plan as it was given out.
    plan: Plan,
    /// The pod as the API server knows it.
    known: PodRef,
    /// The addresses, being assigned.
    addresses: Option<JoinHandle<Result<Vec<Assigned>, Fault>>>,
    /// What they were asked from.
    wanted: Vec<Wanted>,
    /// What was given.
    assigned: Vec<Assigned>,
    /// The sandbox.
    netns: Option<Netns>,
    /// For the log.
    span: Span,
}

/// Answer until the other side is done.
pub(super) fn hold(mut channel: Channel, decider: &Decider, runtime: &Handle) {
    match channel.peer_uid() {
        Ok(0) => {}
        // The folder keeps others out already; this holds if somebody hands the socket on.
        Ok(uid) => return warn!(uid, "refused a CNI call of a user who is not root"),
        Err(e) => return warn!(error = %e, "cannot tell who calls"),
    }
    if let Err(e) = talk(&mut channel, decider, runtime) {
        debug!(error = %e, "a CNI call ended");
    }
}

fn talk(channel: &mut Channel, decider: &Decider, runtime: &Handle) -> Result<(), ChannelError> {
    channel.set_patience(Some(GREETING))?;
    let mut adding = None;
    loop {
        let (request, fds) = match channel.recv_with_fds::<Request>() {
            Err(ChannelError::Closed) => return Ok(()),
            other => other?,
        };
        channel.set_patience(Some(BUSY))?;
        let reply = answer(request, fds, &mut adding, decider, runtime);
        channel.send(&reply)?;
    }
}

fn answer(
    request: Request,
    fds: Vec<OwnedFd>,
    adding: &mut Option<Adding>,
    decider: &Decider,
    runtime: &Handle,
) -> Reply {
    match request {
        Request::Add(call) => {
            let pod = call.pod.as_ref().map(ToString::to_string);
            let span = info_span!("add", container = call.container, pod);
            let _entered = span.clone().entered();
            // The namespace is the CNI side's to work in; here it is only listened in.
            let netns = fds.into_iter().next().and_then(|fd| Netns::from_fd(fd).ok());
            match decider.plan(&call, runtime) {
                Ok((planned, known)) => {
                    let plan = planned.plan;
                    let networks: Vec<_> = plan.attachments.iter().map(|a| a.network.as_str()).collect();
                    info!(?networks, "planned");
                    let wanted = planned.wanted;
                    let addresses = Some(runtime.spawn(decider.addresses(wanted.clone())));
                    let assigned = Vec::new();
                    *adding =
                        Some(Adding { plan: plan.clone(), known, addresses, span, wanted, assigned, netns });
                    Reply::Plan(plan)
                }
                Err(fault) => {
                    warn!(%fault, "cannot be planned");
                    decider.tell_failure(call.pod.as_ref(), &fault, runtime);
                    Reply::Fault(fault)
                }
            }
        }
        Request::Members(members) => {
            let Some(Adding { plan, known, span, .. }) = adding else { return out_of_turn("Members") };
            let _entered = span.clone().entered();
            match runtime.block_on(decider.join(plan, &members)) {
                Ok(()) => Reply::Done,
                Err(fault) => {
                    warn!(%fault, "not a member");
                    decider.tell_failure(Some(known), &fault, runtime);
                    Reply::Fault(fault)
                }
            }
        }
        Request::Unbroken(work) => {
            let _entered = info_span!("unbroken", ?work).entered();
            let mut fds = fds.into_iter();
            // Held until the work is done: a call about the same device waits for it, even if this caller is killed.
            let _lock = fds.next();
            match decider.unbroken(&work, fds.next()) {
                Ok(()) => {
                    info!("done");
                    Reply::Done
                }
                Err(fault) => {
                    warn!(%fault, "cannot be done");
                    Reply::Fault(fault)
                }
            }
        }
        Request::Addresses => {
            let Some(adding) = adding else { return out_of_turn("Addresses") };
            let _entered = adding.span.clone().entered();
            let Some(assigning) = adding.addresses.take() else { return out_of_turn("Addresses") };
            let known = &adding.known;
            let assigned = runtime.block_on(assigning).map(|assigned| match (assigned, &adding.netns) {
                (Ok(assigned), Some(netns)) if decider.probing.any(Mode::Enforce) => {
                    decider.enforce(&adding.plan, &adding.wanted, assigned, netns, runtime)
                }
                (assigned, _) => assigned,
            });
            match assigned {
                Ok(Ok(assigned)) => {
                    adding.assigned = assigned.clone();
                    Reply::Addresses(assigned)
                }
                Ok(Err(fault)) => {
                    warn!(%fault, "no addresses");
                    decider.tell_failure(Some(known), &fault, runtime);
                    Reply::Fault(fault)
                }
                Err(e) => Reply::Fault(broken(e.to_string())),
            }
        }
        Request::Attached(outcomes) => {
            let Some(Adding { plan, known, span, assigned, netns, .. }) = adding.take() else {
                return out_of_turn("Attached");
            };
            let _entered = span.entered();
            match runtime.block_on(decider.record(&plan, &known, &outcomes)) {
                Ok(()) => {
                    info!("attached");
                    if let Some(netns) = netns.filter(|_| decider.probing.any(Mode::Warn)) {
                        decider.look_afterwards(&plan, &assigned, netns, &known, runtime);
                    }
                    Reply::Done
                }
                Err(fault) => {
                    warn!(%fault, "cannot record the pod's networks");
                    Reply::Fault(fault)
                }
            }
        }
        Request::Assign(call) => {
            let pod = call.pod.as_ref().map(ToString::to_string);
            let _entered =
                info_span!("assign", container = call.container, ifname = call.ifname, pod).entered();
            match runtime.block_on(decider.assign(&call)) {
                Ok(assigned) => Reply::Addresses(vec![assigned]),
                Err(fault) => {
                    warn!(%fault, "no addresses");
                    decider.tell_failure(call.pod.as_ref(), &fault, runtime);
                    Reply::Fault(fault)
                }
            }
        }
        Request::Release { container, ifname } => {
            let _entered = info_span!("release", container, ifname).entered();
            match runtime.block_on(decider.release(container, ifname)) {
                Ok(()) => Reply::Done,
                Err(fault) => {
                    info!(%fault, "not released yet");
                    Reply::Fault(fault)
                }
            }
        }
        Request::Status => match decider.ready() {
            Ok(()) => Reply::Done,
            Err(fault) => Reply::Fault(fault),
        },
        _ => out_of_turn("a message of a newer version"),
    }
}

fn out_of_turn(what: &str) -> Reply {
    Reply::Fault(broken(format!("{what} came where it has no meaning")))
}

fn broken(cause: String) -> Fault {
    Fault::new(
        FaultCode::DaemonAway,
        "node daemon",
        cause,
        "see that the CNI program and the daemon are of one version: restart the pod ferroband-node of this node",
    )
}
