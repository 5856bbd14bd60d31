//! Writes and deletes NetworkAttachmentDefinitions.

use super::{NetworkDefinition, definition::DefinitionDiff};
use crate::{
    Error,
    object_writes::{FIELD_MANAGER, delete_unchanged},
};
use ferroband_api::cncf::NetworkAttachmentDefinition;
use ferroband_daemon::api_call::{ApiFailure, classify, with_timeout};
use ferroband_model::{Fault, FaultCode};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use tracing::info;

/// The result of writing a NetworkAttachmentDefinition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    UpToDate,
    /// The existing NetworkAttachmentDefinition belongs to the owner that the string names. It was not
    /// changed.
    Foreign(String),
    /// The API server rejected the definition, for example because of an admission policy, and would reject it again.
    /// The string says why.
    Rejected(String),
}

/// Creates or patches a NetworkAttachmentDefinition. `existing` is the cached object, if there is one.
///
/// After a concurrent change the call fails with 409, and the controller's next pass compares again.
pub async fn write_definition(
    client: &Client,
    desired: &NetworkDefinition,
    existing: Option<&NetworkAttachmentDefinition>,
) -> Result<WriteOutcome, Error> {
    let api: Api<NetworkAttachmentDefinition> = Api::namespaced(client.clone(), &desired.namespace);
    let object = format!("{}/{}", desired.namespace, desired.name);
    let (action, result) = match existing.map(|existing| desired.diff(existing)) {
        Some(DefinitionDiff::Same) => return Ok(WriteOutcome::UpToDate),
        Some(DefinitionDiff::Foreign(owner)) => return Ok(WriteOutcome::Foreign(owner)),
        Some(DefinitionDiff::Patch(patch)) => {
            let parameters =
                PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
            ("patch", with_timeout(api.patch(&desired.name, &parameters, &Patch::Merge(&patch))).await)
        }
        None => {
            let parameters =
                PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
            ("create", with_timeout(api.create(&parameters, &desired.to_object())).await)
        }
    };
    if let Err(e) = result {
        return match (classify(&e), e) {
            // It would be rejected again. An error would delay the definitions of others.
            (ApiFailure::Rejected, kube::Error::Api(status)) => {
                Ok(WriteOutcome::Rejected(status.message.clone()))
            }
            (_, e) => Err(Error::api(action, format!("NetworkAttachmentDefinition {object}"))(e)),
        };
    }
    info!(network = object, action, "network definition written");
    Ok(WriteOutcome::UpToDate)
}

/// The fault for an object whose definition the API server rejects.
pub fn rejected_definition(object: &str, reason: &str) -> Fault {
    Fault::new(
        FaultCode::InvalidConfig,
        object,
        format!("the API server rejects its NetworkAttachmentDefinition: {reason}"),
        "correct the object as the message says",
    )
}

/// Deletes a NetworkAttachmentDefinition whose source object is gone or uses another namespace. Fails if the
/// definition changed since it was read.
pub async fn delete_definition(client: &Client, existing: &NetworkAttachmentDefinition) -> Result<(), Error> {
    let (namespace, name) = (existing.namespace().unwrap_or_default(), existing.name_any());
    let api: Api<NetworkAttachmentDefinition> = Api::namespaced(client.clone(), &namespace);
    match delete_unchanged(&api, existing).await {
        Err(e) if classify(&e) != ApiFailure::NotFound => {
            Err(Error::api("delete", format!("NetworkAttachmentDefinition {namespace}/{name}"))(e))
        }
        _ => {
            info!(
                network = format!("{namespace}/{name}"),
                "network definition deleted because its SriovIBNetwork is gone or uses another namespace"
            );
            Ok(())
        }
    }
}
