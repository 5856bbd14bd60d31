//! HTTP server of the simulated UFM, with one thread per connection.

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

#[derive(Clone, Debug)]
pub struct UfmSimulatorOptions {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Path of the network namespace to listen in; the process's own if absent.
    pub netns: Option<PathBuf>,
    /// TLS identity; plain HTTP if absent.
    pub identity: Option<TlsIdentity>,
    /// Certificates, as PEM, of clients that need no password.
    pub client_certificates: Option<String>,
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
    /// Starts the server in a background thread.
    pub fn start(options: UfmSimulatorOptions) -> Result<Self> {
        let listener = in_netns(options.netns.as_deref(), || {
            TcpListener::bind(options.listen).context("simulated UFM cannot listen")
        })?;
        let tls = options
            .identity
            .as_ref()
            .map(|identity| identity.server_config(options.client_certificates.as_deref()))
            .transpose()?;
        let simulator = Self {
            address: listener.local_addr()?,
            state: Arc::new(Mutex::new(UfmSimulatorState {
                quirks: options.quirks,
                ..UfmSimulatorState::default()
            })),
            identity: options.identity,
            netns: options.netns,
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

    /// Address that the server listens on, with the actual port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Client settings, named as in the ConfigMap and Secret of ib-kubernetes.
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

    /// Injects a fault into the next `times` requests whose method and path contain `path`.
    pub fn inject_fault(&self, path: &str, times: usize, fault: InjectedFault) {
        self.lock().faults.push(PendingFault { path: path.to_owned(), left: times, fault });
    }

    /// Closes all current and new connections until [`Self::come_up`] is called.
    pub fn go_down(&self) {
        let mut state = self.lock();
        state.down = true;
        state.generation += 1;
    }

    /// Accepts connections again. Without `memory` all partitions are lost, as after a restart.
    pub fn come_up(&self, memory: bool) {
        let mut state = self.lock();
        if !memory {
            state.clear_partitions();
        }
        state.down = false;
    }

    pub fn is_down(&self) -> bool {
        self.lock().down
    }

    /// Changes the version-specific behaviour of the running UFM.
    pub fn change_quirks(&self, change: impl FnOnce(&mut VersionQuirks)) {
        change(&mut self.lock().quirks);
    }

    /// Adds a GUID to a partition, as another client would.
    pub fn add_foreign_member(&self, key: u16, guid: Guid) {
        let mut state = self.lock();
        state.partitions.entry(key).or_default().insert(guid, SimulatedMember { full: true, index0: false });
        state.events.push(MembershipEvent { at: Instant::now(), key, guid, member: true });
    }

    pub fn partitions(&self) -> BTreeMap<u16, BTreeMap<Guid, SimulatedMember>> {
        self.lock().partitions.clone()
    }

    /// All membership changes so far.
    pub fn events(&self) -> Vec<MembershipEvent> {
        self.lock().events.clone()
    }

    pub fn calls(&self) -> Vec<RecordedCall> {
        self.lock().calls.clone()
    }

    /// Requests so far whose method and path contain `text`.
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
        // Connect once, so that the listener thread wakes up and ends.
        let _ = in_netns(self.netns.as_deref(), || {
            Ok(TcpStream::connect_timeout(&self.address, Duration::from_secs(1))?)
        });
    }
}

/// Runs `work` in a network namespace, in its own thread. Sockets stay in the namespace in which they were created.
fn in_netns<T: Send>(netns: Option<&Path>, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let Some(path) = netns else { return work() };
    let inside = || {
        setns(File::open(path)?, CloneFlags::CLONE_NEWNET).context("cannot enter the network namespace")?;
        work()
    };
    thread::scope(|scope| scope.spawn(inside).join()).map_err(|_| anyhow!("the network thread panicked"))?
}

fn serve_connection(stream: TcpStream, state: &Mutex<UfmSimulatorState>, tls: Option<Arc<ServerConfig>>) {
    let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
    let generation = lock().generation;
    if lock().down {
        return;
    }
    let _ = stream.set_read_timeout(Some(Duration::from_secs(60)));
    match tls {
        None => serve_requests(BufReader::new(stream), state, generation, |_| false),
        Some(tls) => {
            let Ok(server) = ServerConnection::new(tls) else { return };
            let stream = StreamOwned::new(server, stream);
            let has_certificate =
                |stream: &StreamOwned<ServerConnection, TcpStream>| stream.conn.peer_certificates().is_some();
            serve_requests(BufReader::new(stream), state, generation, has_certificate);
        }
    }
}

fn serve_requests<S: Read + Write>(
    mut stream: BufReader<S>,
    state: &Mutex<UfmSimulatorState>,
    generation: u64,
    has_certificate: impl Fn(&S) -> bool,
) {
    let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
    while let Some(request) = http::read_request(&mut stream) {
        let has_certificate = has_certificate(stream.get_ref());
        let what = format!("{} {}", request.method, request.path);
        let fault = {
            let mut state = lock();
            if state.down || state.generation != generation {
                return;
            }
            take_matching(&mut state.faults, &what)
        };
        let record = |status: u16| record_call(&mut lock(), &what, &request, status);
        let response = match fault {
            None => Some(lock().handle(&request, has_certificate)),
            Some(InjectedFault::Delay(time)) => {
                thread::sleep(time);
                let mut state = lock();
                if state.down || state.generation != generation {
                    None
                } else {
                    Some(state.handle(&request, has_certificate))
                }
            }
            Some(InjectedFault::RespondWith(status)) => {
                Some((status, "{\"error\": \"simulated\"}".to_owned()))
            }
            Some(InjectedFault::RespondWithBody(body)) => Some((200, body)),
            Some(InjectedFault::Disconnect) => None,
            Some(InjectedFault::ApplyThenDisconnect) => {
                lock().handle(&request, has_certificate);
                None
            }
            Some(InjectedFault::ApplyThenDelay(time)) => {
                let response = lock().handle(&request, has_certificate);
                thread::sleep(time);
                Some(response)
            }
        };
        let Some((status, body)) = response else {
            record(0);
            return;
        };
        record(status);
        if http::write_response(stream.get_mut(), status, &body).is_err() {
            return;
        }
    }
}

fn record_call(state: &mut UfmSimulatorState, what: &str, request: &HttpRequest, status: u16) {
    let body = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
    state.calls.push(RecordedCall { at: Instant::now(), request: what.to_owned(), body, status });
}
