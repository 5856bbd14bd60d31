//! Address blocks in the API server, written by compare-and-swap.

use crate::{
    Error,
    api_call::{ApiFailure, classify, with_timeout},
};
use ferroband_address::{IpBlock, IpBlockId, ResourceVersion};
use ferroband_api::ferroband::AddressBlock;
use ferroband_daemon::addresses::{block_from_object, block_to_object};
use kube::{Api, Client, ResourceExt, api::PostParams};
use std::future::Future;

/// Why reading or writing an address block failed or may have failed.
#[derive(Debug)]
pub enum BlockStoreError {
    /// The object is not at the version that the write expected.
    Conflict,
    /// No response, or a status of 429 or 5xx. The write may have succeeded.
    Unavailable(Error),
    /// The API server rejected the request, or returned an object that cannot be parsed. A retry would not help.
    Rejected(Error),
}

/// Storage of address blocks with compare-and-swap: a block is only replaced at the version that the writer knows.
pub trait BlockStore: Send + Sync + 'static {
    /// Creates a block. Fails with `Conflict` if it already exists. Returns the new version.
    fn create(
        &self,
        block: &IpBlock,
    ) -> impl Future<Output = Result<ResourceVersion, BlockStoreError>> + Send;

    /// Replaces a block. Fails with `Conflict` if it is not at version `expected`. Returns the new version.
    fn replace(
        &self,
        block: &IpBlock,
        expected: &ResourceVersion,
    ) -> impl Future<Output = Result<ResourceVersion, BlockStoreError>> + Send;

    fn get(
        &self,
        id: &IpBlockId,
    ) -> impl Future<Output = Result<Option<(IpBlock, ResourceVersion)>, BlockStoreError>> + Send;
}

/// Keeps address blocks as AddressBlock objects in the API server.
#[derive(Clone)]
pub struct ApiBlockStore {
    blocks: Api<AddressBlock>,
}

impl ApiBlockStore {
    pub fn new(client: Client) -> Self {
        Self { blocks: Api::all(client) }
    }
}

impl BlockStore for ApiBlockStore {
    async fn create(&self, block: &IpBlock) -> Result<ResourceVersion, BlockStoreError> {
        let object = block_to_object(block, None);
        let parameters = PostParams::default();
        let call = self.blocks.create(&parameters, &object);
        call_api("create", block.object_name(), call).await.map(|object| version(&object))
    }

    async fn replace(
        &self,
        block: &IpBlock,
        expected: &ResourceVersion,
    ) -> Result<ResourceVersion, BlockStoreError> {
        let object = block_to_object(block, Some(expected));
        let name = block.object_name();
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
            // `NotFound` means that the block to be replaced was deleted, which is a conflict too.
            ApiFailure::Conflict | ApiFailure::NotFound => BlockStoreError::Conflict,
            ApiFailure::Unavailable => BlockStoreError::Unavailable(error),
            ApiFailure::Rejected => BlockStoreError::Rejected(error),
        }
    })
}
