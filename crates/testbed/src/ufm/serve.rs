//! The server: a thread for each connection.

use super::fault::{Fault, Waiting, meets};
use super::http::{self, Request};
use super::state::{Call, Event, Member, State};
use super::{Identity, Manners};
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
pub struct Simulator {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    identity: Option<Identity>,
    netns: Option<PathBuf>,
    stopped: Arc<AtomicBool>,
}

/// How to start one.
#[derive(Clone, Debug)]
pub struct Start {
    /// Where it listens.
    pub listen: SocketAddr,
    /// In which network namespace; this process's own without.
    pub netns: Option<PathBuf>,
    /// Who it is; plain HTTP without.
    pub identity: Option<Identity>,
    /// Certificates of clients that need no password.
    pub clients: Option<String>,
    /// Its manners.
    pub manners: Manners,
}

impl Default for Start {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            netns: None,
            identity: Identity::common_name("${UFM_ADDRESS}").ok(),
            clients: None,
            manners: Manners::default(),
        }
    }
}

impl Simulator {
    /// Starts it.
    pub fn start(start: Start) -> Result<Self> {
        let listener = within(start.netns.as_deref(), || {
            TcpListener::bind(start.listen).context("the simulated UFM cannot listen")
        })?;
        let tls = start.identity.as_ref().map(|one| one.config(start.clients.as_deref())).transpose()?;
        let simulator = Self {
            address: listener.local_addr()?,
            state: Arc::new(Mutex::new(State { manners: start.manners, ..State::default() })),
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
                thread::spawn(move || connection(stream, &state, tls));
            }
        });
        Ok(simulator)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The settings of a client, as ib-kubernetes has them in its ConfigMap and Secret.
    pub fn variables(&self) -> BTreeMap<String, String> {
        let state = self.lock();
        let schema = if self.identity.is_some() { "https" } else { "http" };
        let mut variables: BTreeMap<String, String> = [
            ("DAEMON_SM_PLUGIN", "ufm".to_owned()),
            ("UFM_USERNAME", state.manners.user.0.clone()),
            ("UFM_PASSWORD", state.manners.user.1.clone()),
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
    pub fn fault(&self, path: &str, times: usize, fault: Fault) {
        self.lock().faults.push(Waiting { path: path.to_owned(), left: times, fault });
    }

    /// Goes away: connections are dropped until it is back.
    pub fn leave(&self) {
        let mut state = self.lock();
        state.away = true;
        state.life += 1;
    }

    /// Comes back; with `memory`, or as after a restart without.
    pub fn come_back(&self, memory: bool) {
        let mut state = self.lock();
        if !memory {
            state.forget();
        }
        state.away = false;
    }

    /// Whether it is away.
    pub fn is_away(&self) -> bool {
        self.lock().away
    }

    /// Changes its manners.
    pub fn behave(&self, change: impl FnOnce(&mut Manners)) {
        change(&mut self.lock().manners);
    }

    /// Somebody else puts a GUID into a partition.
    pub fn put(&self, key: u16, guid: Guid) {
        let mut state = self.lock();
        state.partitions.entry(key).or_default().insert(guid, Member { full: true, index0: false });
        state.events.push(Event { at: Instant::now(), key, guid, member: true });
    }

    /// Its partitions now.
    pub fn partitions(&self) -> BTreeMap<u16, BTreeMap<Guid, Member>> {
        self.lock().partitions.clone()
    }

    /// All changes of partitions so far.
    pub fn events(&self) -> Vec<Event> {
        self.lock().events.clone()
    }

    /// All requests so far.
    pub fn calls(&self) -> Vec<Call> {
        self.lock().calls.clone()
    }

    /// The requests so far whose method and path contain a text.
    pub fn calls_of(&self, text: &str) -> Vec<Call> {
        self.calls().into_iter().filter(|call| call.request.contains(text)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.lock().away = true;
        // Wakes the listener.
        let _ = within(self.netns.as_deref(), || {
            Ok(TcpStream::connect_timeout(&self.address, Duration::from_secs(1))?)
        });
    }
}

/// Does something in a network namespace, in a thread of its own: sockets stay in the namespace they were made in.
fn within<T: Send>(netns: Option<&Path>, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let Some(path) = netns else { return work() };
    let inside = || {
        setns(File::open(path)?, CloneFlags::CLONE_NEWNET).context("the network namespace")?;
        work()
    };
    thread::scope(|scope| scope.spawn(inside).join()).map_err(|_| anyhow!("the thread panicked"))?
}

fn connection(stream: TcpStream, state: &Mutex<State>, tls: Option<Arc<ServerConfig>>) {
    let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
    let life = lock().life;
    if lock().away {
        return;
    }
    let _ = stream.set_read_timeout(Some(Duration::from_secs(60)));
    match tls {
        None => requests(BufReader::new(stream), state, life, |_| false),
        Some(tls) => {
            let Ok(server) = ServerConnection::new(tls) else { return };
            let stream = StreamOwned::new(server, stream);
            let certified =
                |stream: &StreamOwned<ServerConnection, TcpStream>| stream.conn.peer_certificates().is_some();
            requests(BufReader::new(stream), state, life, certified);
        }
    }
}

fn requests<S: Read + Write>(
    mut stream: BufReader<S>,
    state: &Mutex<State>,
    life: u64,
    certified: impl Fn(&S) -> bool,
) {
    let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
    while let Some(request) = http::read(&mut stream) {
        let certified = certified(stream.get_ref());
        let what = format!("{} {}", request.method, request.path);
        let fault = {
            let mut state = lock();
            if state.away || state.life != life {
                return;
            }
            meets(&mut state.faults, &what)
        };
        let heard = |status: u16| heard(&mut lock(), &what, &request, status);
        let done = match fault {
            None => Some(lock().answer(&request, certified)),
            Some(Fault::Slow(time)) => {
                thread::sleep(time);
                let mut state = lock();
                if state.away || state.life != life { None } else { Some(state.answer(&request, certified)) }
            }
            Some(Fault::Status(status)) => Some((status, "{\"error\": \"simulated\"}".to_owned())),
            Some(Fault::Drop) => None,
            Some(Fault::DoneThenDrop) => {
                lock().answer(&request, certified);
                None
            }
            Some(Fault::DoneThenSlow(time)) => {
                let done = lock().answer(&request, certified);
                thread::sleep(time);
                Some(done)
            }
        };
        let Some((status, body)) = done else {
            heard(0);
            return;
        };
        heard(status);
        if http::answer(stream.get_mut(), status, &body).is_err() {
            return;
        }
    }
}

fn heard(state: &mut State, what: &str, request: &Request, status: u16) {
    let body = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
    state.calls.push(Call { at: Instant::now(), request: what.to_owned(), body, status });
}
