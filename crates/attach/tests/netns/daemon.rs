//! A node daemon that knows one plan.

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

/// What it does and what happened to it.
#[derive(Default)]
pub struct ScriptedDaemonState {
    pub attachments: Vec<Attachment>,
    pub assigned: Vec<AssignedAddresses>,
    /// Whether plans say that membership is to be waited for.
    pub membership: bool,
    /// Refuse requests of this kind.
    pub refuse_on: Option<&'static str>,
    /// End the connection at requests of this kind.
    pub disconnect_on: Option<&'static str>,
    /// Go away and come back: the connection in hand and all that wait are dropped.
    pub restart: bool,
    /// How often that happened.
    pub restarts: usize,
    /// The kinds of the requests, in order.
    pub requests: Vec<&'static str>,
    /// The requests that say most.
    pub recorded: Vec<DaemonRequest>,
    /// Containers that addresses are held for.
    pub held: BTreeSet<String>,
    /// The namespace that came with the last request that had one.
    pub netns: Option<NetnsId>,
}

/// A running daemon.
pub struct ScriptedDaemon {
    pub state: Arc<Mutex<ScriptedDaemonState>>,
    socket: PathBuf,
    thread: Option<JoinHandle<()>>,
}

impl ScriptedDaemon {
    pub fn start(root: &Root, ledger: ScriptedDaemonState) -> Self {
        Self::resume(root, Arc::new(Mutex::new(ledger)))
    }

    /// Start again with what was known.
    pub fn resume(root: &Root, ledger: Arc<Mutex<ScriptedDaemonState>>) -> Self {
        let socket = socket_path(root);
        fs::create_dir_all(socket.parent().unwrap()).unwrap();
        let listener = listen(&socket);
        let (shared, path) = (ledger.clone(), socket.clone());
        let thread = thread::spawn(move || accept_loop(listener, &path, &shared));
        Self { state: ledger, socket, thread: Some(thread) }
    }

    /// Stop listening.
    pub fn stop(&mut self) {
        if let Some(thread) = self.thread.take() {
            drop(UnixStream::connect(&self.socket).unwrap());
            thread.join().unwrap();
            fs::remove_file(&self.socket).unwrap();
        }
    }

    /// The kinds of the requests since the last time this was asked.
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

fn accept_loop(mut listener: UnixListener, socket: &Path, ledger: &Mutex<ScriptedDaemonState>) {
    loop {
        // A connection without a word ends the daemon.
        let words = serve(listener.accept().unwrap().0, ledger);
        let mut known = ledger.lock().unwrap();
        if known.restart {
            known.restart = false;
            known.restarts += 1;
            drop(known);
            drop(listener);
            thread::sleep(Duration::from_millis(30));
            listener = listen(socket);
        } else if words == 0 {
            return;
        }
    }
}

/// Serve one connection; the number of requests that it had.
fn serve(stream: UnixStream, ledger: &Mutex<ScriptedDaemonState>) -> usize {
    let mut channel = Channel::from(stream);
    assert_eq!(channel.peer_uid().unwrap(), 0);
    let mut count = 0;
    while let Ok((request, fd)) = channel.recv_with_fd::<DaemonRequest>() {
        count += 1;
        let mut ledger = ledger.lock().unwrap();
        if let Some(fd) = fd {
            ledger.netns = Some(Netns::from_fd(fd).unwrap().id());
        }
        match build_reply(&mut ledger, request) {
            // The caller may have been killed; then nobody reads this.
            Some(reply) => drop(channel.send(&reply)),
            None => return count,
        }
    }
    count
}

fn build_reply(ledger: &mut ScriptedDaemonState, request: DaemonRequest) -> Option<DaemonReply> {
    let kind = match &request {
        DaemonRequest::Add(_) => "Add",
        DaemonRequest::Members(_) => "Members",
        DaemonRequest::DeviceOp(_) => "Unbroken",
        DaemonRequest::Addresses => "Addresses",
        DaemonRequest::Attached(_) => "Attached",
        DaemonRequest::Assign(_) => "Assign",
        DaemonRequest::Release { .. } => "Release",
        DaemonRequest::Status => "Status",
        _ => "other",
    };
    ledger.requests.push(kind);
    if ledger.disconnect_on == Some(kind) || ledger.restart {
        return None;
    }
    if ledger.refuse_on == Some(kind) {
        return Some(DaemonReply::Fault(Fault::new(
            FaultCode::ApiUnavailable,
            "the test",
            "it refuses",
            "wait",
        )));
    }
    let reply = match &request {
        DaemonRequest::Add(call) => {
            ledger.held.insert(call.container.clone());
            let pod = call.pod.clone().unwrap_or(PodRef {
                namespace: "default".into(),
                name: "unknown".into(),
                uid: String::new(),
            });
            DaemonReply::Plan(Plan {
                pod,
                attachments: ledger.attachments.clone(),
                membership: ledger.membership,
            })
        }
        DaemonRequest::Addresses => DaemonReply::Addresses(ledger.assigned.clone()),
        DaemonRequest::Assign(call) => {
            ledger.held.insert(format!("{}/{}", call.container, call.ifname));
            DaemonReply::Addresses(ledger.assigned.clone())
        }
        DaemonRequest::Release { container, ifname } => {
            match ifname {
                Some(ifname) => ledger.held.remove(&format!("{container}/{ifname}")),
                None => ledger.held.remove(container),
            };
            DaemonReply::Done
        }
        _ => DaemonReply::Done,
    };
    ledger.recorded.push(request);
    Some(reply)
}
