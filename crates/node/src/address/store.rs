//! The granules in the API server, by compare-and-swap.

use crate::{
    Error,
    call::{Failure, bounded, failure},
};
use ferroband_address::{Granule, GranuleId, Version};
use ferroband_api::ferroband::AddressGranule;
use ferroband_daemon::addresses::{granule_of, object_of};
use kube::{Api, Client, ResourceExt, api::PostParams};
use std::future::Future;

/// Why a write or read did not happen, or is not known to have happened.
#[derive(Debug)]
pub enum StoreError {
    /// The object is not in the state that the write expected.
    Conflict,
    /// No answer, or "not now". The write may have happened.
    Away(Error),
    /// A refusal that the same call would meet again.
    Refused(Error),
}

/// A place that keeps granules and swaps them only from the state that the writer knew.
pub trait Store: Send + Sync + 'static {
    /// Make a granule that does not exist.
    fn create(&self, granule: &Granule) -> impl Future<Output = Result<Version, StoreError>> + Send;

    /// Replace a granule that is at `expected`.
    fn replace(
        &self,
        granule: &Granule,
        expected: &Version,
    ) -> impl Future<Output = Result<Version, StoreError>> + Send;

    /// Read a granule.
    fn get(
        &self,
        id: &GranuleId,
    ) -> impl Future<Output = Result<Option<(Granule, Version)>, StoreError>> + Send;
}

/// The real one.
#[derive(Clone)]
pub struct ApiStore {
    granules: Api<AddressGranule>,
}

impl ApiStore {
    /// The granules that `client` reaches.
    pub fn new(client: Client) -> Self {
        Self { granules: Api::all(client) }
    }
}

impl Store for ApiStore {
    async fn create(&self, granule: &Granule) -> Result<Version, StoreError> {
        let object = object_of(granule, None);
        let parameters = PostParams::default();
        let call = self.granules.create(&parameters, &object);
        asked("create", granule.object_name(), call).await.map(|object| version(&object))
    }

    async fn replace(&self, granule: &Granule, expected: &Version) -> Result<Version, StoreError> {
        let object = object_of(granule, Some(expected));
        let name = granule.object_name();
        let parameters = PostParams::default();
        let call = self.granules.replace(&name, &parameters, &object);
        asked("replace", name.clone(), call).await.map(|object| version(&object))
    }

    async fn get(&self, id: &GranuleId) -> Result<Option<(Granule, Version)>, StoreError> {
        let name = id.object_name();
        let found = asked("get", name.clone(), self.granules.get_opt(&name)).await?;
        let read = found.map(|object| granule_of(&object)).transpose();
        read.map_err(|e| StoreError::Refused(Error::Unreadable { object: name, source: Box::new(e) }))
    }
}

fn version(object: &AddressGranule) -> Version {
    Version(object.resource_version().unwrap_or_default())
}

async fn asked<T>(
    action: &'static str,
    name: String,
    call: impl Future<Output = kube::Result<T>>,
) -> Result<T, StoreError> {
    bounded(call).await.map_err(|e| {
        let failure = failure(&e);
        let error = Error::Api { action, object: format!("AddressGranule {name}"), source: Box::new(e) };
        match failure {
            // Not found: what was to be replaced is gone.
            Failure::Conflict | Failure::NotFound => StoreError::Conflict,
            Failure::Away => StoreError::Away(error),
            Failure::Refused => StoreError::Refused(error),
        }
    })
}
