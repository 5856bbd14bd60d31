//! A node daemon with a fixed plan.

use ferroband_attach::message::{DaemonReply, DaemonRequest};
use ferroband_attach::plan::{AssignedAddresses, Attachment, Plan};
use ferroband_attach::socket::Channel;
use ferroband_attach::socket_path;
use ferroband_kernel::{Netns, NetnsId, Root};
use ferroband_model::{Fault, FaultCode, PodRef};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Configured behavior and recorded requests.
#[derive(Default)]
pub struct ScriptedDaemonState {
    pub attachments: Vec<Attachment>,
    pub assigned: Vec<AssignedAddresses>,
    /// Whether the plans require that the pod's ports are members of their partitions.
    pub membership: bool,
    /// Kind of request to answer with a fault, such as `Attached`.
    pub refuse_on: Option<&'static str>,
    /// Kind of request at which to close the connection without a reply.
    pub disconnect_on: Option<&'static str>,
    /// Set to restart the daemon: it drops the current connection and all queued ones, then listens again.
    pub restart: bool,
    pub restarts: usize,
    /// Kinds of the requests since the last `take_requests`, in order.
    pub requests: Vec<&'static str>,
    /// Requests that were answered with success, in order.
    pub recorded: Vec<DaemonRequest>,
    /// Holders of addresses, as `container` or `container/interface`.
    pub held: BTreeSet<String>,
    /// Identity of the network namespace that was last passed with a request.
    pub netns: Option<NetnsId>,
}

/// A daemon that runs in a thread and serves `socket` until it is stopped or dropped.
pub struct ScriptedDaemon {
    pub state: Arc<Mutex<ScriptedDaemonState>>,
    socket: PathBuf,
    thread: Option<JoinHandle<()>>,
}

impl ScriptedDaemon {
    pub fn start(root: &Root, state: ScriptedDaemonState) -> Self {
        Self::resume(root, Arc::new(Mutex::new(state)))
    }

    /// Start a daemon that continues with the state of an earlier one.
    pub fn resume(root: &Root, state: Arc<Mutex<ScriptedDaemonState>>) -> Self {
        let socket = socket_path(root);
        fs::create_dir_all(socket.parent().unwrap()).unwrap();
        let listener = listen(&socket);
        let (shared, path) = (state.clone(), socket.clone());
        let thread = thread::spawn(move || accept_loop(listener, &path, &shared));
        Self { state, socket, thread: Some(thread) }
    }

    /// Stop the daemon's thread and remove its socket.
    pub fn stop(&mut self) {
        if let Some(thread) = self.thread.take() {
            drop(UnixStream::connect(&self.socket).unwrap());
            thread.join().unwrap();
            fs::remove_file(&self.socket).unwrap();
        }
    }

    /// Kinds of the requests since the last call.
    pub fn take_requests(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.state.lock().unwrap().requests)
    }

    pub fn held_containers(&self) -> Vec<String> {
        self.state.lock().unwrap().held.iter().cloned().collect()
    }
}

impl Drop for ScriptedDaemon {
    fn drop(&mut self) {
        self.stop();
    }
}

fn listen(socket: &Path) -> UnixListener {
    fs::remove_file(socket).ok();
    UnixListener::bind(socket).unwrap()
}

fn accept_loop(mut listener: UnixListener, socket: &Path, state: &Mutex<ScriptedDaemonState>) {
    loop {
        // A connection without a request stops the daemon.
        let requests = serve(listener.accept().unwrap().0, state);
        let mut known = state.lock().unwrap();
        if known.restart {
            known.restart = false;
            known.restarts += 1;
            drop(known);
            drop(listener);
            thread::sleep(Duration::from_millis(30));
            listener = listen(socket);
        } else if requests == 0 {
            return;
        }
    }
}

/// Serve one connection. Returns its number of requests.
fn serve(stream: UnixStream, state: &Mutex<ScriptedDaemonState>) -> usize {
    let mut channel = Channel::from(stream);
    assert_eq!(channel.peer_uid().unwrap(), 0);
    let mut count = 0;
    while let Ok((request, fds)) = channel.recv_with_fds::<DaemonRequest>() {
        count += 1;
        let mut state = state.lock().unwrap();
        if let Some(fd) = fds.into_iter().next() {
            state.netns = Some(Netns::from_fd(fd).unwrap().id());
        }
        match build_reply(&mut state, request) {
            // The send fails if the caller was killed.
            Some(reply) => drop(channel.send(&reply)),
            None => return count,
        }
    }
    count
}

fn build_reply(state: &mut ScriptedDaemonState, request: DaemonRequest) -> Option<DaemonReply> {
    let kind = match &request {
        DaemonRequest::Add(_) => "Add",
        DaemonRequest::AddInterface(_) => "AddInterface",
        DaemonRequest::Members(_) => "Members",
        DaemonRequest::DeviceOp(_) => "Unbroken",
        DaemonRequest::Addresses => "Addresses",
        DaemonRequest::Attached(_) => "Attached",
        DaemonRequest::Assign(_) => "Assign",
        DaemonRequest::Release { .. } => "Release",
        DaemonRequest::Status => "Status",
        _ => "other",
    };
    state.requests.push(kind);
    if state.disconnect_on == Some(kind) || state.restart {
        return None;
    }
    if state.refuse_on == Some(kind) {
        return Some(DaemonReply::Fault(Fault::new(
            FaultCode::ApiUnavailable,
            "test",
            "request refused",
            "wait",
        )));
    }
    let reply = match &request {
        DaemonRequest::Add(call) => {
            state.held.insert(call.container.clone());
            let pod = call.pod.clone().unwrap_or(PodRef {
                namespace: "default".into(),
                name: "unknown".into(),
                uid: String::new(),
            });
            DaemonReply::Plan(Plan {
                pod,
                container: call.container.clone(),
                attachments: state.attachments.clone(),
                membership: state.membership,
                partitions: Vec::new(),
            })
        }
        DaemonRequest::AddInterface(call) => {
            state.held.insert(format!("{}/{}", call.container, call.ifname));
            let (pod, container) = (call.pod.clone().unwrap_or_default(), call.container.clone());
            DaemonReply::Plan(Plan { pod, container, membership: state.membership, ..Plan::default() })
        }
        DaemonRequest::Addresses => DaemonReply::Addresses(state.assigned.clone()),
        DaemonRequest::Assign(call) => {
            state.held.insert(format!("{}/{}", call.container, call.ifname));
            DaemonReply::Addresses(state.assigned.clone())
        }
        DaemonRequest::Release { container, ifname } => {
            match ifname {
                Some(ifname) => state.held.remove(&format!("{container}/{ifname}")),
                None => state.held.remove(container),
            };
            DaemonReply::Done
        }
        _ => DaemonReply::Done,
    };
    state.recorded.push(request);
    Some(reply)
}
