//! Serves one connection of the CNI plugin. Each CNI call uses one connection.

use super::{CniHandler, execute::AddSession};
use ferroband_attach::{
    message::{DaemonReply, DaemonRequest},
    socket::{Channel, ChannelError},
};
use ferroband_kernel::Netns;
use ferroband_model::{Fault, FaultCode};
use std::{os::fd::OwnedFd, time::Duration};
use tokio::runtime::Handle;
use tracing::{Span, debug, info, info_span, warn};

/// How long to wait for the first message, which the CNI plugin sends right after connecting.
const FIRST_MESSAGE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait for each further message. Foreign plugins, which run between two messages, may be slow.
/// The kubelet gives up after four minutes (twice its runtime request timeout of two minutes).
const NEXT_MESSAGE_TIMEOUT: Duration = Duration::from_secs(300);

/// Serves a connection until the peer closes it.
pub(super) fn serve_connection(mut channel: Channel, handler: &CniHandler, runtime: &Handle) {
    match channel.peer_uid() {
        Ok(0) => {}
        // The permissions of the socket's directory already exclude other users. This check also covers a
        // connection that root passed to another process.
        Ok(uid) => return warn!(uid, "rejected a CNI call from a non-root user"),
        Err(e) => return warn!(error = %e, "rejected a CNI call: cannot read the caller's credentials"),
    }
    if let Err(e) = serve_messages(&mut channel, handler, runtime) {
        debug!(error = %e, "CNI connection failed");
    }
}

fn serve_messages(channel: &mut Channel, handler: &CniHandler, runtime: &Handle) -> Result<(), ChannelError> {
    channel.set_timeout(Some(FIRST_MESSAGE_TIMEOUT))?;
    let mut session = None;
    loop {
        let (request, fds) = match channel.recv_with_fds::<DaemonRequest>() {
            Err(ChannelError::Closed) => return Ok(()),
            other => other?,
        };
        channel.set_timeout(Some(NEXT_MESSAGE_TIMEOUT))?;
        let reply = handle_request(request, fds, &mut session, handler, runtime);
        channel.send(&reply)?;
    }
}

fn handle_request<'a>(
    request: DaemonRequest,
    fds: Vec<OwnedFd>,
    session: &mut Option<(AddSession<'a>, Span)>,
    handler: &'a CniHandler,
    runtime: &'a Handle,
) -> DaemonReply {
    match request {
        DaemonRequest::Add(call) => {
            let pod = call.pod.as_ref().map(ToString::to_string);
            let span = info_span!("add", container = call.container, pod);
            let _entered = span.clone().entered();
            let netns = fds.into_iter().next().and_then(|fd| Netns::from_fd(fd).ok());
            let planned = runtime.block_on(handler.plan(&call));
            match planned.and_then(|planned| AddSession::begin(handler, runtime, planned, netns)) {
                Ok(add) => {
                    let plan = add.plan.clone();
                    let networks: Vec<_> = plan.attachments.iter().map(|a| a.network.as_str()).collect();
                    info!(?networks, "planned");
                    *session = Some((add, span));
                    DaemonReply::Plan(plan)
                }
                Err(fault) => {
                    warn!(%fault, "cannot plan the attachments of the pod");
                    handler.report_failure(call.pod.as_ref(), &fault, runtime);
                    DaemonReply::Fault(fault)
                }
            }
        }
        DaemonRequest::Members(members) => {
            let Some((add, span)) = session else { return unexpected_message("Members") };
            let _entered = span.clone().entered();
            match add.wait_for_partitions(&members) {
                Ok(()) => DaemonReply::Done,
                Err(fault) => {
                    warn!(%fault, "waiting for partition membership failed");
                    handler.report_failure(Some(&add.pod), &fault, runtime);
                    DaemonReply::Fault(fault)
                }
            }
        }
        DaemonRequest::DeviceOp(work) => {
            let _entered = info_span!("device operation", ?work).entered();
            let mut fds = fds.into_iter();
            // Hold the caller's device lock until the operation is done, so that another call for the same
            // device waits even if this caller is killed.
            let _lock = fds.next();
            match handler.run_device_op(&work, fds.next()) {
                Ok(()) => {
                    info!("device operation done");
                    DaemonReply::Done
                }
                Err(fault) => {
                    warn!(%fault, "device operation failed");
                    DaemonReply::Fault(fault)
                }
            }
        }
        DaemonRequest::Addresses => {
            let Some((add, span)) = session else { return unexpected_message("Addresses") };
            let _entered = span.clone().entered();
            match add.addresses() {
                Some(Ok(assigned)) => DaemonReply::Addresses(assigned),
                Some(Err(fault)) => {
                    warn!(%fault, "address assignment failed");
                    handler.report_failure(Some(&add.pod), &fault, runtime);
                    DaemonReply::Fault(fault)
                }
                None => unexpected_message("Addresses"),
            }
        }
        DaemonRequest::Attached(outcomes) => {
            let Some((add, span)) = session.take() else { return unexpected_message("Attached") };
            let _entered = span.entered();
            match add.record(&outcomes) {
                Ok(()) => DaemonReply::Done,
                Err(fault) => {
                    warn!(%fault, "cannot write network-status");
                    DaemonReply::Fault(fault)
                }
            }
        }
        DaemonRequest::Assign(call) => {
            let pod = call.pod.as_ref().map(ToString::to_string);
            let _entered =
                info_span!("assign", container = call.container, ifname = call.ifname, pod).entered();
            match runtime.block_on(handler.assign_interface(&call)) {
                Ok(assigned) => DaemonReply::Addresses(vec![assigned]),
                Err(fault) => {
                    warn!(%fault, "address assignment failed");
                    handler.report_failure(call.pod.as_ref(), &fault, runtime);
                    DaemonReply::Fault(fault)
                }
            }
        }
        DaemonRequest::Release { container, ifname } => {
            let _entered = info_span!("release", container, ifname).entered();
            match runtime.block_on(handler.release(container, ifname)) {
                Ok(()) => DaemonReply::Done,
                Err(fault) => {
                    info!(%fault, "release failed; the CNI plugin stores it for a retry");
                    DaemonReply::Fault(fault)
                }
            }
        }
        DaemonRequest::Status => match handler.resolver.check_ready() {
            Ok(()) => DaemonReply::Done,
            Err(fault) => DaemonReply::Fault(fault),
        },
        _ => unexpected_message("message of a newer version"),
    }
}

fn unexpected_message(what: &str) -> DaemonReply {
    DaemonReply::Fault(protocol_fault(format!("unexpected message: {what}")))
}

pub(super) fn protocol_fault(cause: String) -> Fault {
    Fault::new(
        FaultCode::DaemonAway,
        "node daemon",
        cause,
        "check that the CNI plugin and the daemon have the same version: restart the ferroband-node pod on this node",
    )
}
