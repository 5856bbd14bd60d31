//! Address blocks in the API server.

use crate::{
    Error,
    api_call::{ApiFailure, classify, with_timeout},
    error::error_chain,
};
use ferroband_address::{
    BlockAddition, BlockCall, BlockWrite, CallOutcome, IndexedBlock, IpBlock, IpBlockId, IpSpace, PodName,
    ResourceVersion, SPACE_LABEL, StickyRecord, node_label, space_label,
};
use ferroband_api::ferroband::{AddressBlock, AddressIndex, StickyAddresses};
use ferroband_daemon::{
    RevisionWatch,
    addresses::{
        addition_to_object, block_from_object, block_to_object, sticky_from_object, sticky_to_object,
    },
};
use http::{StatusCode, header::CONTENT_TYPE};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
    core::{DeserializeGuard, Status},
};
use serde_json::{Value, json};
use std::{
    future::Future,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tracing::warn;

/// Executes the calls of the node's allocator.
pub trait BlockStore: Send + Sync + 'static {
    /// Executes a call of `node`. A write that does not fit the stored object has the outcome `Conflict`.
    fn execute(&self, node: &str, call: &BlockCall) -> impl Future<Output = CallOutcome> + Send;
}

/// Keeps address blocks as AddressBlock objects in the API server.
#[derive(Clone)]
pub struct ApiBlockStore {
    client: Client,
    blocks: Api<AddressBlock>,
    /// Learns the version of every block, to notice a restore of etcd.
    revisions: Arc<RevisionWatch>,
    /// Distinguish the field managers of all additions of all nodes.
    random: u64,
    additions: Arc<AtomicU64>,
}

type CallResult<T> = Result<T, CallOutcome>;

impl ApiBlockStore {
    pub fn new(client: Client, revisions: Arc<RevisionWatch>) -> Self {
        let (random, additions) = (RandomState::new().hash_one("field manager"), Arc::default());
        Self { blocks: Api::all(client.clone()), client, revisions, random, additions }
    }

    async fn try_execute(&self, node: &str, call: &BlockCall) -> CallResult<CallOutcome> {
        match call {
            BlockCall::Write(BlockWrite::Add(addition)) => self.add(addition).await,
            BlockCall::Write(BlockWrite::Replace { block, expected }) => self.replace(block, expected).await,
            BlockCall::Read(id) => self.read(id).await,
            BlockCall::ListOwn => self.list(&node_label(node)).await,
            BlockCall::ListSpace(scope) => self.list(&scope.selector()).await.map(|mut outcome| {
                if let CallOutcome::Blocks { blocks, .. } = &mut outcome {
                    // Two spaces or regions can have the same label.
                    blocks.retain(|(block, _)| scope.covers(&block.id()));
                }
                outcome
            }),
            BlockCall::ReadIndex(space) => self.read_index(space).await,
            BlockCall::ReadSticky(pod) => self.read_sticky(pod).await,
            BlockCall::WriteSticky(pod, record) => self.write_sticky(pod, record).await,
        }
    }

    /// Adds entries by server-side apply, or by JSON patch if the block is known to exist, which costs the API server less.
    /// The field manager of an apply is used once: the API server removes fields that a manager applied before and does
    /// not apply again, even if requests arrive in another order.
    async fn add(&self, addition: &BlockAddition) -> CallResult<CallOutcome> {
        let (name, object) = (addition.id.object_name(), addition_to_object(addition));
        if addition.exists {
            let call = self.patch(&name, &object);
            return self.block(&name, Some(call_api("patch", block_kind(&name), call).await?));
        }
        let number = self.additions.fetch_add(1, Ordering::Relaxed);
        let manager = format!("ferroband-node-{:016x}-{number}", self.random);
        let parameters = PatchParams::apply(&manager);
        let patch = Patch::Apply(&object);
        let call = self.blocks.patch(&name, &parameters, &patch);
        self.block(&name, Some(call_api("apply", block_kind(&name), call).await?))
    }

    /// Adds the entries and labels of `object` to the stored object, unless one of the entries exists.
    async fn patch(&self, name: &str, object: &AddressBlock) -> kube::Result<AddressBlock> {
        let url = format!("{}/{name}", AddressBlock::url_path(&(), None));
        let request = http::Request::patch(url).header(CONTENT_TYPE, "application/json-patch+json");
        let body = serde_json::to_vec(&added_fields(object)).map_err(kube::Error::SerdeError)?;
        let request = request.body(body).map_err(kube::Error::HttpError)?;
        self.client.request(request).await.map_err(|error| match error {
            kube::Error::Api(mut status) if is_failed_test(&status) => {
                status.code = StatusCode::CONFLICT.as_u16();
                kube::Error::Api(status)
            }
            other => other,
        })
    }

    async fn replace(&self, block: &IpBlock, expected: &ResourceVersion) -> CallResult<CallOutcome> {
        let (name, object) = (block.object_name(), block_to_object(block, Some(expected)));
        let parameters = PostParams::default();
        let call = self.blocks.replace(&name, &parameters, &object);
        self.block(&name, Some(call_api("replace", block_kind(&name), call).await?))
    }

    async fn read(&self, id: &IpBlockId) -> CallResult<CallOutcome> {
        let name = id.object_name();
        self.block(&name, call_api("get", block_kind(&name), self.blocks.get_opt(&name)).await?)
    }

    fn block(&self, name: &str, object: Option<AddressBlock>) -> CallResult<CallOutcome> {
        let Some(object) = object else { return Ok(CallOutcome::Block(None)) };
        let (block, version) = block_from_object(&object).map_err(|e| {
            let error = Error::Unreadable { object: name.to_owned(), source: Box::new(e) };
            warn!(block = name, error = %error_chain(&error), "cannot parse the AddressBlock");
            CallOutcome::Rejected(error.fault())
        })?;
        self.revisions.observe(&version.0);
        Ok(CallOutcome::Block(Some((block, version))))
    }

    /// Lists blocks by label, consistently and without pages, which the API server does from its cache.
    async fn list(&self, selector: &str) -> CallResult<CallOutcome> {
        let api: Api<DeserializeGuard<AddressBlock>> = Api::all(self.client.clone());
        let parameters = ListParams::default().labels(selector);
        let list = call_api("list", "AddressBlocks".into(), api.list(&parameters)).await?;
        let (mut blocks, mut unreadable) = (Vec::with_capacity(list.items.len()), Vec::new());
        for object in list.items {
            let name = object.name_any();
            let parsed = object
                .0
                .map_err(|e| e.error)
                .and_then(|object| block_from_object(&object).map_err(|e| e.to_string()));
            match parsed {
                Ok((block, version)) => {
                    self.revisions.observe(&version.0);
                    blocks.push((block, version));
                }
                Err(error) => {
                    warn!(
                        block = name,
                        error, "cannot parse the AddressBlock, its addresses are not assigned"
                    );
                    unreadable.push(name);
                }
            }
        }
        Ok(CallOutcome::Blocks { blocks, unreadable })
    }

    async fn read_index(&self, space: &IpSpace) -> CallResult<CallOutcome> {
        let api: Api<AddressIndex> = Api::all(self.client.clone());
        let selector = format!("{SPACE_LABEL}={}", space_label(space));
        // The index is a hint, so any version of it is good enough.
        let parameters = ListParams::default().labels(&selector).match_any();
        let list = call_api("list", "AddressIndexes".into(), api.list(&parameters)).await?;
        let objects = list.items.iter().filter(|object| object.spec.space == space.as_str());
        let lines = objects.flat_map(|object| &object.spec.blocks);
        // A line that cannot be read is skipped: it is a hint.
        Ok(CallOutcome::Index(lines.filter_map(|line| line.parse::<IndexedBlock>().ok()).collect()))
    }

    async fn read_sticky(&self, (namespace, name): &PodName) -> CallResult<CallOutcome> {
        let api: Api<StickyAddresses> = Api::namespaced(self.client.clone(), namespace);
        let found = call_api("get", sticky_kind(namespace, name), api.get_opt(name)).await?;
        Ok(CallOutcome::Sticky(found.as_ref().map(sticky_from_object).unwrap_or_default()))
    }

    async fn write_sticky(
        &self,
        (namespace, name): &PodName,
        record: &StickyRecord,
    ) -> CallResult<CallOutcome> {
        let api: Api<StickyAddresses> = Api::namespaced(self.client.clone(), namespace);
        let (object, parameters) = (sticky_to_object(namespace, name, record), PostParams::default());
        let kind = sticky_kind(namespace, name);
        let written = match record.version {
            Some(_) => call_api("replace", kind, api.replace(name, &parameters, &object)).await?,
            None => call_api("create", kind, api.create(&parameters, &object)).await?,
        };
        Ok(CallOutcome::Sticky(sticky_from_object(&written)))
    }
}

impl BlockStore for ApiBlockStore {
    async fn execute(&self, node: &str, call: &BlockCall) -> CallOutcome {
        self.try_execute(node, call).await.unwrap_or_else(|failure| failure)
    }
}

/// Returns the operations of a JSON patch that add the entries and labels of `object`. A `test` for null succeeds if the
/// field does not exist.
fn added_fields(object: &AddressBlock) -> Vec<Value> {
    let mut operations = Vec::new();
    for (offset, entry) in &object.spec.entries {
        let path = format!("/spec/entries/{offset}");
        operations.push(json!({"op": "test", "path": path, "value": null}));
        operations.push(json!({"op": "add", "path": path, "value": entry}));
    }
    for (label, value) in object.labels() {
        let path = format!("/metadata/labels/{}", label.replace('/', "~1"));
        operations.push(json!({"op": "add", "path": path, "value": value}));
    }
    operations
}

/// Whether the patch did not fit the stored object. A rejected object has causes.
fn is_failed_test(status: &Status) -> bool {
    let causes = status.details.as_ref().is_some_and(|details| !details.causes.is_empty());
    status.code == StatusCode::UNPROCESSABLE_ENTITY.as_u16() && !causes
}

fn block_kind(name: &str) -> String {
    format!("AddressBlock {name}")
}

fn sticky_kind(namespace: &str, name: &str) -> String {
    format!("StickyAddresses {namespace}/{name}")
}

async fn call_api<T>(
    action: &'static str,
    object: String,
    call: impl Future<Output = kube::Result<T>>,
) -> CallResult<T> {
    with_timeout(call).await.map_err(|e| {
        let failure = classify(&e);
        let error = Error::Api { action, object: object.clone(), source: Box::new(e) };
        match failure {
            // `NotFound` means that the object to be replaced was deleted, which is a conflict too.
            ApiFailure::Conflict | ApiFailure::NotFound => CallOutcome::Conflict,
            ApiFailure::Unavailable => {
                warn!(object, error = %error_chain(&error), "API server unavailable, retrying");
                CallOutcome::Unavailable
            }
            ApiFailure::Rejected => {
                warn!(object, error = %error_chain(&error), "API server rejected the request");
                CallOutcome::Rejected(error.fault())
            }
        }
    })
}

#[cfg(test)]
mod tests;
