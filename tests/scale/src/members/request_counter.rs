//! Counts the requests that a member sends, by verb and resource.

use http::{Method, Request, StatusCode, header::CONTENT_TYPE};
use kube::{Client, client::Body};
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use tower::service_fn;

/// Kinds with an object per node, pod or block. A list of all of them grows with the cluster.
const GROWING_RESOURCES: [&str; 13] = [
    "addressblocks",
    "addressindexes",
    "guidblocks",
    "ippools",
    "nodepartitions",
    "nodes",
    "overlappingrangeipreservations",
    "pods",
    "spiderendpoints",
    "spiderippools",
    "sriovnetworknodestates",
    "stickyaddresses",
    "subnetmanagerhosts",
];

/// Requests of one member since the last [`RequestCounter::take`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RequestCounts {
    /// `<verb> <resource>` and the number of requests.
    pub requests: BTreeMap<String, u64>,
    /// Responses with status 409, and failed tests of JSON patches.
    pub conflicts: u64,
    /// Lists and watches of all objects of a kind that grows with the cluster.
    pub unbounded: BTreeMap<String, u64>,
}

impl RequestCounts {
    pub fn total(&self) -> u64 {
        self.requests.values().sum()
    }

    pub fn add(&mut self, other: &Self) {
        for (what, count) in &other.requests {
            *self.requests.entry(what.clone()).or_default() += count;
        }
        for (what, count) in &other.unbounded {
            *self.unbounded.entry(what.clone()).or_default() += count;
        }
        self.conflicts += other.conflicts;
    }
}

#[derive(Clone, Debug, Default)]
pub struct RequestCounter(Arc<Mutex<RequestCounts>>);

impl RequestCounter {
    /// Returns a client that sends its requests through `inner` and counts them.
    pub fn count_requests_of(&self, inner: Client) -> Client {
        let counter = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let (inner, counter) = (inner.clone(), counter.clone());
            async move {
                counter.count(&request);
                let is_patch = request.method() == Method::PATCH;
                let response = inner.send(request).await?;
                let is_conflict = match response.status() {
                    StatusCode::CONFLICT => true,
                    // The `test` of a JSON patch failed.
                    StatusCode::UNPROCESSABLE_ENTITY => is_patch,
                    _ => false,
                };
                counter.0.lock().conflicts += u64::from(is_conflict);
                Ok::<_, kube::Error>(response)
            }
        });
        Client::new(service, "default")
    }

    /// Returns the counts and starts again at zero.
    pub fn take(&self) -> RequestCounts {
        std::mem::take(&mut self.0.lock())
    }

    fn count<B>(&self, request: &Request<B>) {
        let target = RequestTarget::of(request);
        let mut counts = self.0.lock();
        let what = format!("{} {}", target.verb, target.resource);
        if target.is_unbounded {
            *counts.unbounded.entry(what.clone()).or_default() += 1;
        }
        *counts.requests.entry(what).or_default() += 1;
    }
}

/// Verb and resource of a request, as the API server counts them.
#[derive(Debug, PartialEq, Eq)]
struct RequestTarget {
    verb: &'static str,
    resource: String,
    is_unbounded: bool,
}

impl RequestTarget {
    fn of<B>(request: &Request<B>) -> Self {
        let query = request.uri().query().unwrap_or_default();
        let mut segments = request.uri().path().trim_matches('/').split('/');
        // `api/v1` or `apis/<group>/<version>`
        let prefix = if segments.next() == Some("apis") { 2 } else { 1 };
        let mut segments: Vec<_> = segments.skip(prefix).collect();
        if segments.first() == Some(&"namespaces") && segments.len() > 2 {
            segments.drain(..2);
        }
        let has_name = segments.len() > 1;
        let is_apply = request
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .is_some_and(|value| value.contains("apply-patch"));
        let verb = match *request.method() {
            Method::GET if has_name => "get",
            Method::GET if query.contains("watch=") => "watch",
            Method::GET => "list",
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH if is_apply => "apply",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ => "other",
        };
        let resource = segments.first().copied().unwrap_or_default().to_owned();
        let is_selected =
            ["labelSelector=", "fieldSelector=", "limit=1&"].iter().any(|part| query.contains(part))
                || query.ends_with("limit=1");
        let is_unbounded = matches!(verb, "list" | "watch")
            && !is_selected
            && GROWING_RESOURCES.contains(&resource.as_str());
        Self { verb, resource, is_unbounded }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(method: Method, uri: &str, content: &str) -> (&'static str, String, bool) {
        let request =
            Request::builder().method(method).uri(uri).header(CONTENT_TYPE, content).body(()).unwrap();
        let target = RequestTarget::of(&request);
        (target.verb, target.resource, target.is_unbounded)
    }

    #[test]
    fn requests_are_counted_by_verb_and_resource() {
        let blocks = "/apis/ferroband.io/v1alpha1/addressblocks";
        let of = |verb, resource: &str, unbounded| (verb, resource.to_owned(), unbounded);
        assert_eq!(target(Method::GET, blocks, ""), of("list", "addressblocks", true));
        let selected = format!("{blocks}?labelSelector=a%3Db&watch=true");
        assert_eq!(target(Method::GET, &selected, ""), of("watch", "addressblocks", false));
        assert_eq!(target(Method::GET, &format!("{blocks}/a"), ""), of("get", "addressblocks", false));
        let apply =
            target(Method::PATCH, &format!("{blocks}/a?fieldManager=x"), "application/apply-patch+yaml");
        assert_eq!(apply, of("apply", "addressblocks", false));
        assert_eq!(target(Method::GET, "/api/v1/nodes?&limit=1", ""), of("list", "nodes", false));
        assert_eq!(target(Method::GET, "/api/v1/nodes?&limit=100", ""), of("list", "nodes", true));
        assert_eq!(target(Method::GET, "/api/v1/namespaces/a/pods/b", ""), of("get", "pods", false));
        assert_eq!(target(Method::GET, "/api/v1/namespaces?watch=1", ""), of("watch", "namespaces", false));
    }
}
