//! A fake API server for tests. It stores objects and records every request.

use bytes::Bytes;
use futures::channel::mpsc;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Frame;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tower::service_fn;

#[derive(Clone, Default)]
pub struct FakeApi {
    state: Arc<Mutex<FakeApiState>>,
}

#[derive(Default)]
struct FakeApiState {
    objects: BTreeMap<String, Value>,
    calls: Vec<FakeApiCall>,
    version: u64,
    unavailable: bool,
    /// Paths whose requests fail with a status.
    rejected: BTreeMap<String, StatusCode>,
    /// Watches that have not ended, by path. They deliver nothing.
    watches: Vec<(String, mpsc::UnboundedSender<WatchChunk>)>,
}

type WatchChunk = Result<Frame<Bytes>, Infallible>;

/// A request as the fake API server received it.
#[derive(Clone, Debug, PartialEq)]
pub struct FakeApiCall {
    /// HTTP method, such as `GET`.
    pub verb: String,
    /// URL path without the query string.
    pub path: String,
    pub query: String,
    pub body: Value,
}

impl FakeApi {
    /// Returns a client whose requests this server answers, without a network.
    pub fn client(&self) -> Client {
        let api = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move {
                let (head, body) = request.into_parts();
                let bytes = body.collect_bytes().await.unwrap_or_default();
                let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
                let query = head.uri.query().unwrap_or_default();
                let (status, answer) = api.respond(&head.method, head.uri.path(), query, body);
                let body = match status.is_success() && query.contains("watch=true") {
                    true => api.start_watch(head.uri.path()),
                    false => Full::new(Bytes::from(answer.to_string())).boxed_unsync(),
                };
                let mut response = Response::new(body);
                *response.status_mut() = status;
                Ok::<_, Infallible>(response)
            }
        });
        Client::new(service, "default")
    }

    /// Stores an object at `path` as if another client had created it. Ends the watches of `path`.
    pub fn insert_object(&self, path: &str, object: Value) {
        let mut state = self.lock();
        state.objects.insert(path.to_owned(), object);
        state.watches.retain(|(watched, _)| watched != path);
    }

    /// Removes the object at `path` as if another client had deleted it.
    pub fn remove_object(&self, path: &str) {
        self.lock().objects.remove(path);
    }

    fn start_watch(&self, path: &str) -> UnsyncBoxBody<Bytes, Infallible> {
        let (sender, chunks) = mpsc::unbounded();
        self.lock().watches.push((path.to_owned(), sender));
        StreamBody::new(chunks).boxed_unsync()
    }

    /// Fails all requests for `path` with `status`.
    pub fn reject(&self, path: &str, status: StatusCode) {
        self.lock().rejected.insert(path.to_owned(), status);
    }

    pub fn get_object(&self, path: &str) -> Option<Value> {
        self.lock().objects.get(path).cloned()
    }

    /// Makes the server answer all requests with 503, or stops doing so. Ends all watches.
    pub fn set_unavailable(&self, unavailable: bool) {
        let mut state = self.lock();
        state.unavailable = unavailable;
        state.watches.clear();
    }

    /// Lists the requests that were received so far, each as `VERB path`.
    pub fn list_calls(&self) -> Vec<String> {
        let state = self.lock();
        state.calls.iter().map(|call| format!("{} {}", call.verb, call.path)).collect()
    }

    /// Lists the query strings of the requests that were received so far.
    pub fn list_queries(&self) -> Vec<String> {
        self.lock().calls.iter().map(|call| call.query.clone()).collect()
    }

    /// Forgets the requests that were received so far.
    pub fn clear_calls(&self) {
        self.lock().calls.clear();
    }

    /// Returns the body of the last request with this verb and path.
    pub fn last_body(&self, verb: &str, path: &str) -> Value {
        let state = self.lock();
        let call = state.calls.iter().rev().find(|call| call.verb == verb && call.path == path);
        call.unwrap_or_else(|| panic!("no {verb} {path} among {:?}", state.calls)).body.clone()
    }

    fn lock(&self) -> MutexGuard<'_, FakeApiState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn respond(&self, verb: &Method, path: &str, query: &str, body: Value) -> (StatusCode, Value) {
        let mut state = self.lock();
        let call = FakeApiCall {
            verb: verb.to_string(),
            path: path.to_owned(),
            query: query.to_owned(),
            body: body.clone(),
        };
        state.calls.push(call);
        let failure = |code: StatusCode, reason: &str| {
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "metadata": {},
                "reason": reason, "code": code.as_u16(), "message": format!("{reason}: {path}"),
            });
            (code, status)
        };
        if let Some(status) = state.rejected.get(path) {
            return failure(*status, status.canonical_reason().unwrap_or_default());
        }
        let stored = |state: &mut FakeApiState, at: String, mut object: Value| {
            state.version += 1;
            object["metadata"]["resourceVersion"] = json!(state.version.to_string());
            state.objects.insert(at, object.clone());
            (StatusCode::OK, object)
        };
        if state.unavailable {
            return failure(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable");
        }
        // Like an API server without the feature WatchList.
        if query.contains("sendInitialEvents=true") && state.objects.contains_key(path) {
            return failure(StatusCode::UNPROCESSABLE_ENTITY, "Invalid");
        }
        match *verb {
            Method::POST => {
                let at = format!("{path}/{}", body["metadata"]["name"].as_str().unwrap_or_default());
                if state.objects.contains_key(&at) {
                    return failure(StatusCode::CONFLICT, "AlreadyExists");
                }
                stored(&mut state, at, body)
            }
            Method::PUT => match state.objects.get(path) {
                None => failure(StatusCode::NOT_FOUND, "NotFound"),
                Some(now) if now["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"] => {
                    failure(StatusCode::CONFLICT, "Conflict")
                }
                Some(_) => stored(&mut state, path.to_owned(), body),
            },
            Method::PATCH if path.contains("/addressblocks/") => {
                let patched = match (body.as_array(), state.objects.get(path)) {
                    (Some(_), None) => return failure(StatusCode::NOT_FOUND, "NotFound"),
                    (Some(operations), Some(object)) => patch_block(object, operations),
                    (None, object) => apply_block(object, &body),
                };
                match patched {
                    Some(object) => stored(&mut state, path.to_owned(), object),
                    None if body.is_array() => failure(StatusCode::UNPROCESSABLE_ENTITY, "Invalid"),
                    None => failure(StatusCode::CONFLICT, "Conflict"),
                }
            }
            // Another PATCH does not change the stored object. Tests inspect the recorded request instead.
            Method::PATCH => {
                let stored = state.objects.get(path.trim_end_matches("/status")).cloned();
                (StatusCode::OK, stored.unwrap_or_else(|| json!({"metadata": {"name": "patched"}})))
            }
            _ => match state.objects.get(path) {
                Some(object) => (StatusCode::OK, object.clone()),
                None if path.ends_with("/addressblocks") => {
                    let inside = |at: &String| at.starts_with(&format!("{path}/"));
                    let items: Vec<_> =
                        state.objects.iter().filter(|(at, _)| inside(at)).map(|(_, object)| object).collect();
                    let metadata = json!({"resourceVersion": state.version.to_string()});
                    (
                        StatusCode::OK,
                        json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items}),
                    )
                }
                None => failure(StatusCode::NOT_FOUND, "NotFound"),
            },
        }
    }
}

/// Returns the AddressBlock after a server-side apply by a new field manager, or `None` on a conflict.
fn apply_block(stored: Option<&Value>, applied: &Value) -> Option<Value> {
    let Some(mut object) = stored.cloned() else { return Some(applied.clone()) };
    let node = &applied["spec"]["node"];
    let other = &object["spec"]["node"];
    if !node.is_null() && !other.is_null() && node != other {
        return None;
    }
    if !node.is_null() {
        object["spec"]["node"] = node.clone();
    }
    for (offset, entry) in applied["spec"]["entries"].as_object()? {
        let present = &mut object["spec"]["entries"][offset];
        if !present.is_null() && present != entry {
            return None;
        }
        *present = entry.clone();
    }
    for (label, value) in applied["metadata"]["labels"].as_object().into_iter().flatten() {
        object["metadata"]["labels"][label] = value.clone();
    }
    Some(object)
}

/// Returns the object after the operations `test` and `add` of a JSON patch, or `None` if a test fails.
fn patch_block(stored: &Value, operations: &[Value]) -> Option<Value> {
    let mut object = stored.clone();
    for operation in operations {
        let path = operation["path"].as_str()?;
        let value = &operation["value"];
        if operation["op"] == "test" {
            object.pointer(path).is_none_or(|present| present == value).then_some(())?;
        } else {
            let (parent, field) = path.rsplit_once('/')?;
            object.pointer_mut(parent)?[field.replace("~1", "/")] = value.clone();
        }
    }
    Some(object)
}
