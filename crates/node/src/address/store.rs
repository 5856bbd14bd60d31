//! The granules in the API server, by compare-and-swap.

use crate::{
    Error,
    api_call::{ApiFailure, classify, with_timeout},
};
use ferroband_address::{IpBlock, IpBlockId, ResourceVersion};
use ferroband_api::ferroband::AddressBlock;
use ferroband_daemon::addresses::{block_from_object, block_to_object};
use kube::{Api, Client, ResourceExt, api::PostParams};
use std::future::Future;

/// Why a write or read did not happen, or is not known to have happened.
#[derive(Debug)]
pub enum BlockStoreError {
    /// The object is not in the state that the write expected.
    Conflict,
    /// No answer, or "not now". The write may have happened.
    Unavailable(Error),
    /// A refusal that the same call would meet again.
    Rejected(Error),
}

/// A place that keeps granules and swaps them only from the state that the writer knew.
pub trait BlockStore: Send + Sync + 'static {
    /// Make a granule that does not exist.
    fn create(
        &self,
        granule: &IpBlock,
    ) -> impl Future<Output = Result<ResourceVersion, BlockStoreError>> + Send;

    /// Replace a granule that is at `expected`.
    fn replace(
        &self,
        granule: &IpBlock,
        expected: &ResourceVersion,
    ) -> impl Future<Output = Result<ResourceVersion, BlockStoreError>> + Send;

    /// Read a granule.
    fn get(
        &self,
        id: &IpBlockId,
    ) -> impl Future<Output = Result<Option<(IpBlock, ResourceVersion)>, BlockStoreError>> + Send;
}

/// The real one.
#[derive(Clone)]
pub struct ApiBlockStore {
    blocks: Api<AddressBlock>,
}

impl ApiBlockStore {
    /// The granules that `client` reaches.
    pub fn new(client: Client) -> Self {
        Self { blocks: Api::all(client) }
    }
}

impl BlockStore for ApiBlockStore {
    async fn create(&self, granule: &IpBlock) -> Result<ResourceVersion, BlockStoreError> {
        let object = block_to_object(granule, None);
        let parameters = PostParams::default();
        let call = self.blocks.create(&parameters, &object);
        call_api("create", granule.object_name(), call).await.map(|object| version(&object))
    }

    async fn replace(
        &self,
        granule: &IpBlock,
        expected: &ResourceVersion,
    ) -> Result<ResourceVersion, BlockStoreError> {
        let object = block_to_object(granule, Some(expected));
        let name = granule.object_name();
        let parameters = PostParams::default();
        let call = self.blocks.replace(&name, &parameters, &object);
        call_api("replace", name.clone(), call).await.map(|object| version(&object))
    }

    async fn get(&self, id: &IpBlockId) -> Result<Option<(IpBlock, ResourceVersion)>, BlockStoreError> {
        let name = id.object_name();
        let found = call_api("get", name.clone(), self.blocks.get_opt(&name)).await?;
        let read = found.map(|object| block_from_object(&object)).transpose();
        read.map_err(|e| BlockStoreError::Rejected(Error::Unreadable { object: name, source: Box::new(e) }))
    }
}

fn version(object: &AddressBlock) -> ResourceVersion {
    ResourceVersion(object.resource_version().unwrap_or_default())
}

async fn call_api<T>(
    action: &'static str,
    name: String,
    call: impl Future<Output = kube::Result<T>>,
) -> Result<T, BlockStoreError> {
    with_timeout(call).await.map_err(|e| {
        let failure = classify(&e);
        let error = Error::Api { action, object: format!("AddressBlock {name}"), source: Box::new(e) };
        match failure {
            // Not found: what was to be replaced is gone.
            ApiFailure::Conflict | ApiFailure::NotFound => BlockStoreError::Conflict,
            ApiFailure::Unavailable => BlockStoreError::Unavailable(error),
            ApiFailure::Rejected => BlockStoreError::Rejected(error),
        }
    })
}
