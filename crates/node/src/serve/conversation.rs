//! One connection: one CNI call.

use super::CniHandler;
use crate::{address::DetectionMode, plan::AttachmentIpRequests};
use ferroband_attach::{
    message::{DaemonReply, DaemonRequest},
    plan::{AssignedAddresses, Plan},
    socket::{Channel, ChannelError},
};
use ferroband_kernel::Netns;
use ferroband_model::{Fault, FaultCode, PodRef};
use std::{os::fd::OwnedFd, time::Duration};
use tokio::{runtime::Handle, task::JoinHandle};
use tracing::{Span, debug, info, info_span, warn};

/// How long the first message may take; it is sent right after connecting.
const FIRST_MESSAGE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the CNI side may be busy between two messages: foreign plugins take their time, and the kubelet gives
/// up after four minutes (its runtime request timeout is two, doubled).
const NEXT_MESSAGE_TIMEOUT: Duration = Duration::from_secs(300);

/// What is under way on this connection.
struct AddSession {
    /// The plan as it was given out.
    plan: Plan,
    /// The pod as the API server knows it.
    pod: PodRef,
    /// The addresses, being assigned.
    assigning: Option<JoinHandle<Result<Vec<AssignedAddresses>, Fault>>>,
    /// What they were asked from.
    ip_requests: Vec<AttachmentIpRequests>,
    /// What was given.
    assigned: Vec<AssignedAddresses>,
    /// The sandbox.
    netns: Option<Netns>,
    /// For the log.
    span: Span,
}

/// Answer until the other side is done.
pub(super) fn serve_connection(mut channel: Channel, decider: &CniHandler, runtime: &Handle) {
    match channel.peer_uid() {
        Ok(0) => {}
        // The folder keeps others out already; this holds if somebody hands the socket on.
        Ok(uid) => return warn!(uid, "refused a CNI call of a user who is not root"),
        Err(e) => return warn!(error = %e, "cannot tell who calls"),
    }
    if let Err(e) = serve_messages(&mut channel, decider, runtime) {
        debug!(error = %e, "a CNI call ended");
    }
}

fn serve_messages(channel: &mut Channel, decider: &CniHandler, runtime: &Handle) -> Result<(), ChannelError> {
    channel.set_timeout(Some(FIRST_MESSAGE_TIMEOUT))?;
    let mut adding = None;
    loop {
        let (request, fds) = match channel.recv_with_fds::<DaemonRequest>() {
            Err(ChannelError::Closed) => return Ok(()),
            other => other?,
        };
        channel.set_timeout(Some(NEXT_MESSAGE_TIMEOUT))?;
        let reply = handle_request(request, fds, &mut adding, decider, runtime);
        channel.send(&reply)?;
    }
}

fn handle_request(
    request: DaemonRequest,
    fds: Vec<OwnedFd>,
    adding: &mut Option<AddSession>,
    decider: &CniHandler,
    runtime: &Handle,
) -> DaemonReply {
    match request {
        DaemonRequest::Add(call) => {
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
                    let wanted = planned.ip_requests;
                    let addresses = Some(runtime.spawn(decider.assign_addresses(wanted.clone())));
                    let assigned = Vec::new();
                    *adding = Some(AddSession {
                        plan: plan.clone(),
                        pod: known,
                        assigning: addresses,
                        span,
                        ip_requests: wanted,
                        assigned,
                        netns,
                    });
                    DaemonReply::Plan(plan)
                }
                Err(fault) => {
                    warn!(%fault, "cannot be planned");
                    decider.report_failure(call.pod.as_ref(), &fault, runtime);
                    DaemonReply::Fault(fault)
                }
            }
        }
        DaemonRequest::Members(members) => {
            let Some(AddSession { plan, pod: known, span, .. }) = adding else {
                return unexpected_message("Members");
            };
            let _entered = span.clone().entered();
            match runtime.block_on(decider.wait_for_partitions(plan, &members)) {
                Ok(()) => DaemonReply::Done,
                Err(fault) => {
                    warn!(%fault, "not a member");
                    decider.report_failure(Some(known), &fault, runtime);
                    DaemonReply::Fault(fault)
                }
            }
        }
        DaemonRequest::DeviceOp(work) => {
            let _entered = info_span!("unbroken", ?work).entered();
            let mut fds = fds.into_iter();
            // Held until the work is done: a call about the same device waits for it, even if this caller is killed.
            let _lock = fds.next();
            match decider.run_device_op(&work, fds.next()) {
                Ok(()) => {
                    info!("done");
                    DaemonReply::Done
                }
                Err(fault) => {
                    warn!(%fault, "cannot be done");
                    DaemonReply::Fault(fault)
                }
            }
        }
        DaemonRequest::Addresses => {
            let Some(adding) = adding else { return unexpected_message("Addresses") };
            let _entered = adding.span.clone().entered();
            let Some(assigning) = adding.assigning.take() else { return unexpected_message("Addresses") };
            let known = &adding.pod;
            let assigned = runtime.block_on(assigning).map(|assigned| match (assigned, &adding.netns) {
                (Ok(assigned), Some(netns)) if decider.probing.has_mode(DetectionMode::Enforce) => {
                    decider.replace_duplicates(&adding.plan, &adding.ip_requests, assigned, netns, runtime)
                }
                (assigned, _) => assigned,
            });
            match assigned {
                Ok(Ok(assigned)) => {
                    adding.assigned = assigned.clone();
                    DaemonReply::Addresses(assigned)
                }
                Ok(Err(fault)) => {
                    warn!(%fault, "no addresses");
                    decider.report_failure(Some(known), &fault, runtime);
                    DaemonReply::Fault(fault)
                }
                Err(e) => DaemonReply::Fault(protocol_fault(e.to_string())),
            }
        }
        DaemonRequest::Attached(outcomes) => {
            let Some(AddSession { plan, pod: known, span, assigned, netns, .. }) = adding.take() else {
                return unexpected_message("Attached");
            };
            let _entered = span.entered();
            match runtime.block_on(decider.record_network_status(&plan, &known, &outcomes)) {
                Ok(()) => {
                    info!("attached");
                    if let Some(netns) = netns.filter(|_| decider.probing.has_mode(DetectionMode::Warn)) {
                        decider.probe_in_background(&plan, &assigned, netns, &known, runtime);
                    }
                    DaemonReply::Done
                }
                Err(fault) => {
                    warn!(%fault, "cannot record the pod's networks");
                    DaemonReply::Fault(fault)
                }
            }
        }
        DaemonRequest::Assign(call) => {
            let pod = call.pod.as_ref().map(ToString::to_string);
            let _entered =
                info_span!("assign", container = call.container, ifname = call.ifname, pod).entered();
            match runtime.block_on(decider.assign_interface(&call)) {
                Ok(assigned) => DaemonReply::Addresses(vec![assigned]),
                Err(fault) => {
                    warn!(%fault, "no addresses");
                    decider.report_failure(call.pod.as_ref(), &fault, runtime);
                    DaemonReply::Fault(fault)
                }
            }
        }
        DaemonRequest::Release { container, ifname } => {
            let _entered = info_span!("release", container, ifname).entered();
            match runtime.block_on(decider.release(container, ifname)) {
                Ok(()) => DaemonReply::Done,
                Err(fault) => {
                    info!(%fault, "not released yet");
                    DaemonReply::Fault(fault)
                }
            }
        }
        DaemonRequest::Status => match decider.check_ready() {
            Ok(()) => DaemonReply::Done,
            Err(fault) => DaemonReply::Fault(fault),
        },
        _ => unexpected_message("a message of a newer version"),
    }
}

fn unexpected_message(what: &str) -> DaemonReply {
    DaemonReply::Fault(protocol_fault(format!("{what} came where it has no meaning")))
}

fn protocol_fault(cause: String) -> Fault {
    Fault::new(
        FaultCode::DaemonAway,
        "node daemon",
        cause,
        "see that the CNI program and the daemon are of one version: restart the pod ferroband-node of this node",
    )
}
