//! Serves one connection of the CNI plugin. Each CNI call uses one connection.

use super::{CniHandler, execute::AddSession};
use ferroband_attach::{
    message::{DaemonReply, DaemonRequest},
    socket::{Channel, ChannelError},
};
use ferroband_kernel::Netns;
use ferroband_model::{Fault, FaultCode, PodRef};
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
        channel.send(&reply.unwrap_or_else(DaemonReply::Fault))?;
    }
}

fn handle_request<'a>(
    request: DaemonRequest,
    fds: Vec<OwnedFd>,
    session: &mut Option<(AddSession<'a>, Span)>,
    handler: &'a CniHandler,
    runtime: &'a Handle,
) -> Result<DaemonReply, Fault> {
    // Logs a fault, and reports it as an event of the pod.
    let report = |fault: Fault, problem: &str, pod: Option<&PodRef>| {
        warn!(%fault, "{problem}");
        handler.report_failure(pod, &fault, runtime);
        fault
    };
    match request {
        DaemonRequest::Add(call) => {
            let pod = call.pod.as_ref().map(ToString::to_string);
            let span = info_span!("add", container = call.container, pod);
            let _entered = span.clone().entered();
            let netns = fds.into_iter().next().and_then(|fd| Netns::from_fd(fd).ok());
            let planned = runtime.block_on(handler.plan(&call));
            let add =
                planned.and_then(|planned| AddSession::begin(handler, runtime, planned, netns)).map_err(
                    |fault| report(fault, "cannot plan the attachments of the pod", call.pod.as_ref()),
                )?;
            let plan = add.plan.clone();
            let networks: Vec<_> = plan.attachments.iter().map(|a| a.network.as_str()).collect();
            info!(?networks, "planned");
            *session = Some((add, span));
            Ok(DaemonReply::Plan(plan))
        }
        DaemonRequest::Members(members) => {
            let (add, span) = session.as_mut().ok_or_else(|| unexpected_message("Members"))?;
            let _entered = span.clone().entered();
            add.wait_for_partitions(&members)
                .map_err(|fault| report(fault, "waiting for partition membership failed", Some(&add.pod)))?;
            Ok(DaemonReply::Done)
        }
        DaemonRequest::DeviceOp(work) => {
            let _entered = info_span!("device operation", ?work).entered();
            let mut fds = fds.into_iter();
            // Hold the caller's device lock until the operation is done, so that another call for the same
            // device waits even if this caller is killed.
            let _lock = fds.next();
            handler
                .run_device_op(&work, fds.next())
                .inspect_err(|fault| warn!(%fault, "device operation failed"))?;
            info!("device operation done");
            Ok(DaemonReply::Done)
        }
        DaemonRequest::Addresses => {
            let (add, span) = session.as_mut().ok_or_else(|| unexpected_message("Addresses"))?;
            let _entered = span.clone().entered();
            let assigned = add.addresses().ok_or_else(|| unexpected_message("Addresses"))?;
            assigned
                .map(DaemonReply::Addresses)
                .map_err(|fault| report(fault, "address assignment failed", Some(&add.pod)))
        }
        DaemonRequest::Attached(outcomes) => {
            let (add, span) = session.take().ok_or_else(|| unexpected_message("Attached"))?;
            let _entered = span.entered();
            let recorded = add.record(&outcomes);
            recorded.inspect_err(|fault| warn!(%fault, "cannot write network-status"))?;
            Ok(DaemonReply::Done)
        }
        DaemonRequest::Assign(call) => {
            let pod = call.pod.as_ref().map(ToString::to_string);
            let _entered =
                info_span!("assign", container = call.container, ifname = call.ifname, pod).entered();
            let assigned = runtime.block_on(handler.assign_interface(&call));
            assigned
                .map(|assigned| DaemonReply::Addresses(vec![assigned]))
                .map_err(|fault| report(fault, "address assignment failed", call.pod.as_ref()))
        }
        DaemonRequest::Release { container, ifname } => {
            let _entered = info_span!("release", container, ifname).entered();
            let released = runtime.block_on(handler.release(container, ifname));
            let kept = "release failed; the CNI plugin stores it for a retry";
            released.inspect_err(|fault| info!(%fault, "{kept}"))?;
            Ok(DaemonReply::Done)
        }
        DaemonRequest::Status => handler.resolver.check_ready().map(|()| DaemonReply::Done),
        _ => Err(unexpected_message("message of a newer version")),
    }
}

fn unexpected_message(what: &str) -> Fault {
    protocol_fault(format!("unexpected message: {what}"))
}

pub(super) fn protocol_fault(cause: String) -> Fault {
    Fault::new(
        FaultCode::DaemonAway,
        "node daemon",
        cause,
        "check that the CNI plugin and the daemon have the same version: restart the ferroband-node pod on this node",
    )
}
