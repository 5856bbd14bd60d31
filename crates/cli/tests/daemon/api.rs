//! A fake API server for the node daemon. It stores objects by path and supports lists, watches and optimistic
//! concurrency.

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, getsockname, listen, socket,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::{AsRawFd, OwnedFd},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

/// The address of a server that is not started yet. The socket is bound, so that no other process gets the port, but
/// it does not listen, so that connections are refused.
pub struct ReservedAddress(OwnedFd);

/// A handle of the running server. The server's threads end with the test process.
#[derive(Clone)]
pub struct FakeApiServer {
    address: SocketAddr,
    state: Arc<Mutex<FakeApiServerState>>,
}

#[derive(Default)]
struct FakeApiServerState {
    /// Objects by their path in the API. The paths of objects that a test adds with `put` have no namespace.
    objects: BTreeMap<String, Value>,
    calls: Vec<String>,
    version: u64,
}

impl ReservedAddress {
    /// Kubeconfig for clients that start before the server. Their connections are refused until `start` is
    /// called.
    pub fn kubeconfig(&self) -> String {
        kubeconfig(self.address())
    }

    fn address(&self) -> SocketAddr {
        let name: SockaddrIn = getsockname(self.0.as_raw_fd()).unwrap();
        SocketAddr::from((name.ip(), name.port()))
    }

    /// Starts to listen and to serve requests in background threads.
    pub fn start(self) -> FakeApiServer {
        let server = FakeApiServer { address: self.address(), state: Arc::default() };
        // What the leader writes before nodes may assign addresses.
        let imports = json!({"whereabouts": "Complete", "spiderpool": "Complete"});
        let state = json!({"apiVersion": "ferroband.io/v1alpha1", "kind": "AddressState",
            "metadata": {"name": "cluster"}, "spec": {"nodes": 1}, "status": {"imports": imports}});
        server.put("/apis/ferroband.io/v1alpha1/addressstates", state);
        listen(&self.0, Backlog::new(64).unwrap()).unwrap();
        let listener = TcpListener::from(self.0);
        let serving = server.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let server = serving.clone();
                thread::spawn(move || server.serve(&stream.unwrap()));
            }
        });
        server
    }
}

impl FakeApiServer {
    /// Reserves a free port on the loopback interface.
    pub fn reserve() -> ReservedAddress {
        let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        bind(socket.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).unwrap();
        ReservedAddress(socket)
    }

    /// Kubeconfig with which a client connects to this server.
    pub fn kubeconfig(&self) -> String {
        kubeconfig(self.address)
    }

    /// Stores an object under its name in the collection at `path`, and sends it to watches.
    pub fn put(&self, path: &str, object: Value) {
        let at = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap());
        self.state.lock().unwrap().store(at, object);
    }

    pub fn get(&self, path: &str) -> Option<Value> {
        self.state.lock().unwrap().objects.get(path).cloned()
    }

    /// Returns all requests so far except watches, each as `VERB path`.
    pub fn calls(&self) -> Vec<String> {
        self.state.lock().unwrap().calls.clone()
    }

    fn serve(&self, stream: &TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
            let mut words = line.split(' ');
            let (verb, target) = (words.next()?.to_owned(), words.next()?.to_owned());
            let mut length = 0;
            loop {
                let mut header = String::new();
                reader.read_line(&mut header).ok()?;
                let header = header.trim().to_ascii_lowercase();
                if header.is_empty() {
                    break;
                }
                if let Some(value) = header.strip_prefix("content-length:") {
                    length = value.trim().parse().ok()?;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).ok()?;
            let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
            let (path, query) = target.split_once('?').unwrap_or((&target, ""));
            // Streaming lists are refused, as by an API server without the feature WatchList.
            let streams = query.contains("sendInitialEvents=true");
            if query.contains("watch=true") && !streams {
                return self.watch(stream, path, query);
            }
            let (status, response) = match streams {
                true => failure(422, "Invalid"),
                false => self.state.lock().unwrap().respond(&verb, path, body),
            };
            let text = response.to_string();
            let head = format!(
                "HTTP/1.1 {status} x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                text.len()
            );
            let mut out = stream;
            out.write_all(head.as_bytes()).and_then(|()| out.write_all(text.as_bytes())).ok()?;
        }
    }

    /// Streams objects newer than the requested resourceVersion until the client disconnects.
    fn watch(&self, stream: &TcpStream, path: &str, query: &str) -> Option<()> {
        let from = query.split('&').find_map(|part| part.strip_prefix("resourceVersion="));
        let mut last_sent: u64 = from.and_then(|version| version.parse().ok()).unwrap_or_default();
        let mut out = stream;
        out.write_all(
            b"HTTP/1.1 200 x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
        )
        .ok()?;
        loop {
            let updates: Vec<_> = {
                let state = self.state.lock().unwrap();
                let mut updates: Vec<_> =
                    state.list(path).filter(|object| version(object) > last_sent).cloned().collect();
                updates.sort_by_key(version);
                updates
            };
            for object in updates {
                last_sent = version(&object);
                let line = format!("{}\n", json!({"type": "MODIFIED", "object": object}));
                write!(out, "{:x}\r\n{line}\r\n", line.len()).ok()?;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn kubeconfig(address: SocketAddr) -> String {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "test", "user": {}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    });
    config.to_string()
}

fn failure(code: u16, reason: &str) -> (u16, Value) {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": reason, "message": reason, "code": code});
    (code, status)
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
}

impl FakeApiServerState {
    fn store(&mut self, at: String, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.objects.insert(at, object.clone());
        object
    }

    fn list<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a Value> {
        let inside = move |at: &str| at.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
        self.objects.iter().filter(move |(at, _)| inside(at)).map(|(_, object)| object)
    }

    fn respond(&mut self, verb: &str, path: &str, body: Value) -> (u16, Value) {
        self.calls.push(format!("{verb} {path}"));
        match verb {
            "POST" => {
                let at = format!("{path}/{}", body["metadata"]["name"].as_str().unwrap_or_default());
                match self.objects.contains_key(&at) {
                    true => failure(409, "AlreadyExists"),
                    false => (201, self.store(at, body)),
                }
            }
            "PUT" => match self.objects.get(path) {
                None => failure(404, "NotFound"),
                Some(existing) if version(existing) != version(&body) => failure(409, "Conflict"),
                Some(_) => (200, self.store(path.to_owned(), body)),
            },
            "PATCH" if path.contains("/customresourcedefinitions/") => match self.objects.get(path) {
                // The label `foreign` marks a CRD that another field manager owns, so that applying it is a
                // conflict.
                Some(existing) if existing["metadata"]["labels"]["foreign"] == "true" => {
                    failure(409, "Conflict")
                }
                _ => {
                    let mut object = body;
                    let established = json!({"type": "Established", "status": "True"});
                    object["status"] = json!({"conditions": [established]});
                    (200, self.store(path.to_owned(), object))
                }
            },
            "PATCH" if path.contains("/deployments/") && !self.objects.contains_key(path) => {
                failure(404, "NotFound")
            }
            "PATCH" if path.contains("/addressblocks/") => match add_entries(self.objects.get(path), body) {
                Some(object) => (200, self.store(path.to_owned(), object)),
                None => failure(409, "Conflict"),
            },
            // The leader confirms the start of a daemon in the status.
            "PATCH" if path.contains("/nodepartitions/") => {
                let mut object = body;
                object["status"] = json!({"confirmedStart": object["spec"]["addresses"]["start"].as_str().unwrap_or_default()});
                (200, self.store(path.to_owned(), object))
            }
            "PATCH" => (200, json!({"metadata": {"name": "patched"}})),
            "DELETE" => match self.objects.remove(path) {
                Some(object) => (200, object),
                None => failure(404, "NotFound"),
            },
            _ => match self.objects.get(path) {
                Some(object) => (200, object.clone()),
                None if [
                    "/pods",
                    "/nodes",
                    "/addressblocks",
                    "/addressstates",
                    "/network-attachment-definitions",
                    "/nodepartitions",
                    "/fabrics",
                    "/guidblocks",
                ]
                .iter()
                .any(|collection| path.ends_with(collection)) =>
                {
                    let items: Vec<_> = self.list(path).cloned().collect();
                    let metadata = json!({"resourceVersion": self.version.to_string()});
                    (200, json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items}))
                }
                None => failure(404, "NotFound"),
            },
        }
    }
}

/// Returns the AddressBlock after a server-side apply or a JSON patch that adds entries, or `None` on a conflict.
fn add_entries(stored: Option<&Value>, applied: Value) -> Option<Value> {
    let Some(mut object) = stored.cloned() else { return Some(applied) };
    let mut entries = applied["spec"]["entries"].as_object().cloned().unwrap_or_default();
    for operation in applied.as_array().into_iter().flatten().filter(|operation| operation["op"] == "add") {
        if let Some(offset) = operation["path"].as_str()?.strip_prefix("/spec/entries/") {
            entries.insert(offset.to_owned(), operation["value"].clone());
        }
    }
    for (offset, entry) in entries {
        let present = &mut object["spec"]["entries"][&offset];
        if !present.is_null() && *present != entry {
            return None;
        }
        *present = entry;
    }
    Some(object)
}
