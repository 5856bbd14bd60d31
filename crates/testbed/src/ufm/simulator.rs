//! The server: a thread for each connection.

use super::http::{self, HttpRequest};
use super::injected_fault::{InjectedFault, PendingFault, take_matching};
use super::state::{MembershipEvent, RecordedCall, SimulatedMember, UfmSimulatorState};
use super::{TlsIdentity, VersionQuirks};
use anyhow::{Context, Result, anyhow};
use ferroband_model::Guid;
use nix::sched::{CloneFlags, setns};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A simulated UFM; it stops when dropped.
pub struct UfmSimulator {
    address: SocketAddr,
    state: Arc<Mutex<UfmSimulatorState>>,
    identity: Option<TlsIdentity>,
    netns: Option<PathBuf>,
    stopped: Arc<AtomicBool>,
}

/// How to start one.
#[derive(Clone, Debug)]
pub struct UfmSimulatorOptions {
    /// Where it listens.
    pub listen: SocketAddr,
    /// In which network namespace; this process's own without.
    pub netns: Option<PathBuf>,
    /// Who it is; plain HTTP without.
    pub identity: Option<TlsIdentity>,
    /// Certificates of clients that need no password.
    pub client_certificates: Option<String>,
    /// Its manners.
    pub quirks: VersionQuirks,
}

impl Default for UfmSimulatorOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            netns: None,
            identity: TlsIdentity::with_common_name("${UFM_ADDRESS}").ok(),
            client_certificates: None,
            quirks: VersionQuirks::default(),
        }
    }
}

impl UfmSimulator {
    /// Starts it.
    pub fn start(start: UfmSimulatorOptions) -> Result<Self> {
        let listener = in_netns(start.netns.as_deref(), || {
            TcpListener::bind(start.listen).context("the simulated UFM cannot listen")
        })?;
        let tls = start
            .identity
            .as_ref()
            .map(|one| one.server_config(start.client_certificates.as_deref()))
            .transpose()?;
        let simulator = Self {
            address: listener.local_addr()?,
            state: Arc::new(Mutex::new(UfmSimulatorState {
                quirks: start.quirks,
                ..UfmSimulatorState::default()
            })),
            identity: start.identity,
            netns: start.netns,
            stopped: Arc::default(),
        };
        let (state, stopped) = (simulator.state.clone(), simulator.stopped.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let (state, tls) = (state.clone(), tls.clone());
                thread::spawn(move || serve_connection(stream, &state, tls));
            }
        });
        Ok(simulator)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The settings of a client, as ib-kubernetes has them in its ConfigMap and Secret.
    pub fn client_env(&self) -> BTreeMap<String, String> {
        let state = self.lock();
        let schema = if self.identity.is_some() { "https" } else { "http" };
        let mut variables: BTreeMap<String, String> = [
            ("DAEMON_SM_PLUGIN", "ufm".to_owned()),
            ("UFM_USERNAME", state.quirks.credentials.0.clone()),
            ("UFM_PASSWORD", state.quirks.credentials.1.clone()),
            ("UFM_ADDRESS", self.address.ip().to_string()),
            ("UFM_PORT", self.address.port().to_string()),
            ("UFM_HTTP_SCHEMA", schema.to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        if let Some(identity) = &self.identity {
            variables.insert("UFM_CERTIFICATE".to_owned(), identity.certificate.clone());
        }
        variables
    }

    /// Lets the next `times` requests whose method and path contain `path` meet a fault.
    pub fn inject_fault(&self, path: &str, times: usize, fault: InjectedFault) {
        self.lock().faults.push(PendingFault { path: path.to_owned(), left: times, fault });
    }

    /// Goes away: connections are dropped until it is back.
    pub fn go_down(&self) {
        let mut state = self.lock();
        state.down = true;
        state.generation += 1;
    }

    /// Comes back; with `memory`, or as after a restart without.
    pub fn come_up(&self, memory: bool) {
        let mut state = self.lock();
        if !memory {
            state.clear_partitions();
        }
        state.down = false;
    }

    /// Whether it is away.
    pub fn is_down(&self) -> bool {
        self.lock().down
    }

    /// Changes its manners.
    pub fn change_quirks(&self, change: impl FnOnce(&mut VersionQuirks)) {
        change(&mut self.lock().quirks);
    }

    /// Somebody else puts a GUID into a partition.
    pub fn add_foreign_member(&self, key: u16, guid: Guid) {
        let mut state = self.lock();
        state.partitions.entry(key).or_default().insert(guid, SimulatedMember { full: true, index0: false });
        state.events.push(MembershipEvent { at: Instant::now(), key, guid, member: true });
    }

    /// Its partitions now.
    pub fn partitions(&self) -> BTreeMap<u16, BTreeMap<Guid, SimulatedMember>> {
        self.lock().partitions.clone()
    }

    /// All changes of partitions so far.
    pub fn events(&self) -> Vec<MembershipEvent> {
        self.lock().events.clone()
    }

    /// All requests so far.
    pub fn calls(&self) -> Vec<RecordedCall> {
        self.lock().calls.clone()
    }

    /// The requests so far whose method and path contain a text.
    pub fn calls_matching(&self, text: &str) -> Vec<RecordedCall> {
        self.calls().into_iter().filter(|call| call.request.contains(text)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, UfmSimulatorState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UfmSimulator {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.lock().down = true;
        // Wakes the listener.
        let _ = in_netns(self.netns.as_deref(), || {
            Ok(TcpStream::connect_timeout(&self.address, Duration::from_secs(1))?)
        });
    }
}

/// Does something in a network namespace, in a thread of its own: sockets stay in the namespace they were made in.
fn in_netns<T: Send>(netns: Option<&Path>, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let Some(path) = netns else { return work() };
    let inside = || {
        setns(File::open(path)?, CloneFlags::CLONE_NEWNET).context("the network namespace")?;
        work()
    };
    thread::scope(|scope| scope.spawn(inside).join()).map_err(|_| anyhow!("the thread panicked"))?
}

fn serve_connection(stream: TcpStream, state: &Mutex<UfmSimulatorState>, tls: Option<Arc<ServerConfig>>) {
    let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
    let life = lock().generation;
    if lock().down {
        return;
    }
    let _ = stream.set_read_timeout(Some(Duration::from_secs(60)));
    match tls {
        None => serve_requests(BufReader::new(stream), state, life, |_| false),
        Some(tls) => {
            let Ok(server) = ServerConnection::new(tls) else { return };
            let stream = StreamOwned::new(server, stream);
            let certified =
                |stream: &StreamOwned<ServerConnection, TcpStream>| stream.conn.peer_certificates().is_some();
            serve_requests(BufReader::new(stream), state, life, certified);
        }
    }
}

fn serve_requests<S: Read + Write>(
    mut stream: BufReader<S>,
    state: &Mutex<UfmSimulatorState>,
    life: u64,
    certified: impl Fn(&S) -> bool,
) {
    let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
    while let Some(request) = http::read_request(&mut stream) {
        let certified = certified(stream.get_ref());
        let what = format!("{} {}", request.method, request.path);
        let fault = {
            let mut state = lock();
            if state.down || state.generation != life {
                return;
            }
            take_matching(&mut state.faults, &what)
        };
        let heard = |status: u16| record_call(&mut lock(), &what, &request, status);
        let done = match fault {
            None => Some(lock().handle(&request, certified)),
            Some(InjectedFault::Delay(time)) => {
                thread::sleep(time);
                let mut state = lock();
                if state.down || state.generation != life {
                    None
                } else {
                    Some(state.handle(&request, certified))
                }
            }
            Some(InjectedFault::RespondWith(status)) => {
                Some((status, "{\"error\": \"simulated\"}".to_owned()))
            }
            Some(InjectedFault::Disconnect) => None,
            Some(InjectedFault::ApplyThenDisconnect) => {
                lock().handle(&request, certified);
                None
            }
            Some(InjectedFault::ApplyThenDelay(time)) => {
                let done = lock().handle(&request, certified);
                thread::sleep(time);
                Some(done)
            }
        };
        let Some((status, body)) = done else {
            heard(0);
            return;
        };
        heard(status);
        if http::write_response(stream.get_mut(), status, &body).is_err() {
            return;
        }
    }
}

fn record_call(state: &mut UfmSimulatorState, what: &str, request: &HttpRequest, status: u16) {
    let body = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
    state.calls.push(RecordedCall { at: Instant::now(), request: what.to_owned(), body, status });
}
