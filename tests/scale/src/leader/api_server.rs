//! An API server over HTTP for the load test: lists, watches and writes of any kind, without schemas and admission.

use super::json_patch::apply_operations;
use super::object_query::{ObjectPath, ObjectSelector, QueryParameters};
use super::object_store::ObjectStore;
use super::stored_object::{PatchMode, StoredObject};
use anyhow::{Context, Result};
use bytes::Bytes;
use futures::StreamExt;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::json;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::net::TcpListener;
use tokio_stream::wrappers::UnboundedReceiverStream;

type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;

/// The API server and what it counts.
#[derive(Clone, Default)]
pub struct LoadApiServer {
    pub store: Arc<Mutex<ObjectStore>>,
    /// Requests by `<method> <resource>`.
    requests: Arc<Mutex<BTreeMap<String, u64>>>,
    /// Writes that changed an object, except those of leases and events.
    writes: Arc<AtomicU64>,
}

impl LoadApiServer {
    /// Listens on a free port and serves until the runtime ends.
    pub async fn listen(&self) -> Result<SocketAddr> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("the API server cannot listen")?;
        let address = listener.local_addr()?;
        let server = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = server.clone();
                let service = service_fn(move |request| {
                    let server = server.clone();
                    async move { Ok::<_, Infallible>(server.serve(request).await) }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Ok(address)
    }

    pub fn requests(&self) -> BTreeMap<String, u64> {
        self.requests.lock().clone()
    }

    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    async fn serve(&self, request: Request<Incoming>) -> Response<ResponseBody> {
        let (head, body) = request.into_parts();
        if head.uri.path() == "/metrics" {
            return success(self.store.lock().metrics());
        }
        let Some(path) = ObjectPath::parse(head.uri.path()) else {
            return failure(StatusCode::NOT_FOUND, "NotFound", head.uri.path());
        };
        let resource = path.collection.rsplit('/').next().unwrap_or_default();
        *self.requests.lock().entry(format!("{} {resource}", head.method)).or_default() += 1;
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let query = QueryParameters::parse(head.uri.query().unwrap_or_default());
        let header =
            |name| head.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).unwrap_or("");
        let metadata_only = header(ACCEPT).contains("as=PartialObjectMetadata");
        match head.method {
            Method::GET if path.name.is_none() => self.read_collection(&path, &query, metadata_only),
            Method::GET => self.read_object(&path, metadata_only),
            Method::PATCH if header(CONTENT_TYPE).contains("json-patch") => {
                let answered = self.patch_json(&path, &body, metadata_only);
                answered.unwrap_or_else(|e| failure(StatusCode::BAD_REQUEST, "BadRequest", &format!("{e:#}")))
            }
            method => {
                let mode = match header(CONTENT_TYPE).contains("apply-patch") {
                    true if query.is_true("force") => PatchMode::Apply,
                    true => PatchMode::Add,
                    false => PatchMode::Merge,
                };
                let answered = self.write(&method, &path, &body, mode, metadata_only);
                answered.unwrap_or_else(|e| failure(StatusCode::BAD_REQUEST, "BadRequest", &format!("{e:#}")))
            }
        }
    }

    fn read_object(&self, path: &ObjectPath, metadata_only: bool) -> Response<ResponseBody> {
        let key = path.key(path.name.as_deref().unwrap_or_default());
        match self.store.lock().get(&path.collection, &key) {
            Some(object) => success(object.render(metadata_only)),
            None => failure(StatusCode::NOT_FOUND, "NotFound", &key),
        }
    }

    fn read_collection(
        &self,
        path: &ObjectPath,
        query: &QueryParameters,
        metadata_only: bool,
    ) -> Response<ResponseBody> {
        let selector = ObjectSelector::new(path, query);
        let mut store = self.store.lock();
        if query.is_true("watch") {
            let all = query.is_true("sendInitialEvents");
            let since =
                query.get("resourceVersion").and_then(|version| version.parse().ok()).filter(|_| !all);
            let since = if all { None } else { Some(since.unwrap_or_default()) };
            let events = store.watch(&path.collection, selector, metadata_only, since);
            let frames = UnboundedReceiverStream::new(events).map(|event| Ok(Frame::data(event)));
            return Response::new(StreamBody::new(frames).boxed_unsync());
        }
        let limit = query.get("limit").and_then(|limit| limit.parse().ok()).unwrap_or(usize::MAX);
        let page = store.list(&path.collection, &selector, metadata_only, (query.get("continue"), limit));
        drop(store);
        let next = page.next.unwrap_or_default();
        let metadata = json!({"resourceVersion": page.version.to_string(), "continue": next});
        let begin = format!(r#"{{"apiVersion":"v1","kind":"List","metadata":{metadata},"items":["#);
        let items = page.items.into_iter().enumerate();
        let items = items.map(|(n, item)| if n == 0 { item } else { format!(",{item}") });
        let parts = std::iter::once(begin).chain(items).chain(std::iter::once("]}".to_owned()));
        let frames =
            futures::stream::iter(parts.map(|part| Ok(Frame::data(Bytes::from(part)))).collect::<Vec<_>>());
        Response::new(StreamBody::new(frames).boxed_unsync())
    }

    fn write(
        &self,
        method: &Method,
        path: &ObjectPath,
        body: &[u8],
        mode: PatchMode,
        metadata_only: bool,
    ) -> Result<Response<ResponseBody>> {
        let resource = path.collection.rsplit('/').next().unwrap_or_default();
        let is_quiet = matches!(resource, "leases" | "events");
        if resource == "events" {
            return Ok(success(String::from_utf8_lossy(body).into_owned()));
        }
        let mut store = self.store.lock();
        let name = path.name.clone();
        let mut sent = match *method {
            Method::DELETE => StoredObject::default(),
            _ => StoredObject::parse(body)?,
        };
        let key = path.key(&name.unwrap_or_else(|| sent.name().to_owned()));
        if let Some(namespace) = &path.namespace {
            sent.metadata.insert("namespace".into(), json!(namespace));
        }
        let present = store.get(&path.collection, &key).cloned();
        let stored = match (method.clone(), present) {
            (Method::POST, Some(_)) => return Ok(failure(StatusCode::CONFLICT, "AlreadyExists", &key)),
            (Method::POST, None) => sent,
            (Method::DELETE, Some(_)) => {
                self.writes.fetch_add(1, Ordering::Relaxed);
                store.delete(&path.collection, &key);
                return Ok(success(r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#.to_owned()));
            }
            (Method::PATCH, None) if mode != PatchMode::Merge && !path.is_status() => sent,
            (Method::PATCH, Some(now)) if mode == PatchMode::Add && now.conflicts_with(&sent) => {
                return Ok(failure(StatusCode::CONFLICT, "Conflict", &key));
            }
            (_, None) => return Ok(failure(StatusCode::NOT_FOUND, "NotFound", &key)),
            (Method::PUT, Some(now)) if sent.version() != 0 && sent.version() != now.version() => {
                return Ok(failure(StatusCode::CONFLICT, "Conflict", &key));
            }
            (method, Some(mut now)) => {
                let mode = if method == Method::PUT { PatchMode::Apply } else { mode };
                if !now.patch(sent, mode, path.is_status())? {
                    return Ok(success(now.render(metadata_only)));
                }
                now
            }
        };
        self.writes.fetch_add(u64::from(!is_quiet), Ordering::Relaxed);
        Ok(success(store.put(&path.collection, &key, stored).render(metadata_only)))
    }
}

impl LoadApiServer {
    fn patch_json(
        &self,
        path: &ObjectPath,
        body: &[u8],
        metadata_only: bool,
    ) -> Result<Response<ResponseBody>> {
        let key = path.key(path.name.as_deref().unwrap_or_default());
        let mut store = self.store.lock();
        let Some(present) = store.get(&path.collection, &key) else {
            return Ok(failure(StatusCode::NOT_FOUND, "NotFound", &key));
        };
        let Some(patched) = apply_operations(present, body)? else {
            return Ok(failure(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", &key));
        };
        self.writes.fetch_add(1, Ordering::Relaxed);
        Ok(success(store.put(&path.collection, &key, patched).render(metadata_only)))
    }
}

fn success(body: String) -> Response<ResponseBody> {
    let mut response = Response::new(Full::new(Bytes::from(body)).boxed_unsync());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn failure(code: StatusCode, reason: &str, what: &str) -> Response<ResponseBody> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "metadata": {},
        "reason": reason, "code": code.as_u16(), "message": format!("{reason}: {what}"),
    });
    let mut response = success(status.to_string());
    *response.status_mut() = code;
    response
}
