//! Listens on the CNI socket and starts a thread for each call, up to a limit. Each CNI call uses one connection.

use super::CniHandler;
use super::execute::AddSession;
use crate::Error;
use ferroband_attach::message::{DaemonReply, DaemonRequest};
use ferroband_attach::socket::{Channel, ChannelError};
use ferroband_daemon::catch_panic;
use ferroband_kernel::Netns;
use ferroband_kernel::files::remove_file;
use ferroband_model::{Fault, FaultCode, PodRef};
use nix::sys::socket::{Shutdown, shutdown};
use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::{Span, debug, error, info, info_span, warn};

/// Maximum number of concurrent calls. Further calls wait in the socket's backlog, for example when a booting
/// node starts all its pods at once.
const MAX_CONCURRENT_CALLS: usize = 128;

pub struct CniSocket {
    listener: Arc<UnixListener>,
    /// One permit per call that may run.
    slots: Arc<Semaphore>,
}

impl CniSocket {
    /// Creates the socket at `path` and starts a thread that serves CNI calls on it.
    pub fn open(path: &Path, handler: Arc<CniHandler>, runtime: Handle) -> Result<Self, Error> {
        let listener = Arc::new(bind(path)?);
        let slots = Arc::new(Semaphore::new(MAX_CONCURRENT_CALLS));
        let thread = thread::Builder::new().name("cni-accept".to_owned()).spawn({
            let (listener, slots) = (listener.clone(), slots.clone());
            move || accept_calls(&listener, &slots, &handler, &runtime)
        });
        thread.map_err(|e| Error::Task { task: "CNI accept thread", source: Some(Box::new(e)) })?;
        info!(socket = %path.display(), "serving CNI calls");
        Ok(Self { listener, slots })
    }

    /// Stops accepting calls. Running calls continue.
    pub fn close(&self) {
        // The shutdown makes accept(2) in the accept thread return EINVAL.
        if let Err(errno) = shutdown(self.listener.as_raw_fd(), Shutdown::Both) {
            warn!(%errno, "cannot shut the CNI socket down");
        }
    }

    /// Waits until no call is running. Returns `false` if that takes longer than `patience`.
    pub async fn wait_idle(&self, patience: Duration) -> bool {
        timeout(patience, self.slots.acquire_many(MAX_CONCURRENT_CALLS as u32)).await.is_ok()
    }
}

/// Creates the socket and atomically replaces an old one. The new socket has mode 0600 before it gets its
/// final name.
fn bind(path: &Path) -> Result<UnixListener, Error> {
    let failed = |source: std::io::Error| Error::Serve { path: path.to_owned(), source: Box::new(source) };
    let temporary = path.with_extension("new");
    remove_file(&temporary).map_err(failed)?;
    let listener = UnixListener::bind(&temporary).map_err(failed)?;
    fs::set_permissions(&temporary, Permissions::from_mode(0o600)).map_err(failed)?;
    fs::rename(&temporary, path).map_err(failed)?;
    Ok(listener)
}

fn accept_calls(
    listener: &UnixListener,
    slots: &Arc<Semaphore>,
    handler: &Arc<CniHandler>,
    runtime: &Handle,
) {
    loop {
        // Acquire a slot before accepting a connection, so that further calls wait in the socket's backlog.
        let slot = runtime.block_on(slots.clone().acquire_owned());
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(e) if e.kind() == ErrorKind::InvalidInput => return debug!("CNI socket closed"),
            Err(e) => {
                warn!(error = %e, "cannot accept a CNI call");
                // The process is probably out of file descriptors. Wait, because an immediate retry would
                // fail, too.
                thread::sleep(Duration::from_millis(100));
                continue;
            }
        };
        let (handler, runtime) = (handler.clone(), runtime.clone());
        let served =
            thread::Builder::new().name("cni-call".to_owned()).stack_size(512 << 10).spawn(move || {
                let _slot = slot;
                let serve = || serve_connection(Channel::from(stream), &handler, &runtime);
                if let Err(e) = catch_panic(serve) {
                    error!(error = %e, "CNI call failed");
                }
            });
        if let Err(e) = served {
            warn!(error = %e, "cannot start a thread for a CNI call");
        }
    }
}

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
        DaemonRequest::Add(ref call) | DaemonRequest::AddInterface(ref call) => {
            let pod = call.pod.as_ref().map(ToString::to_string);
            let span = info_span!("add", container = call.container, pod);
            let _entered = span.clone().entered();
            let netns = fds.into_iter().next().and_then(|fd| Netns::from_fd(fd).ok());
            let planned = match &request {
                DaemonRequest::AddInterface(call) => runtime.block_on(handler.plan_interface(call)),
                _ => runtime.block_on(handler.plan(call)),
            };
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
            if let Some((add, _)) = session.as_ref() {
                add.check_device_op(&work)
                    .map_err(|fault| report(fault, "device operation refused", Some(&add.pod)))?;
            }
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
