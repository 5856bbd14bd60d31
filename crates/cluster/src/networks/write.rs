//! Definitions, written.

use super::{NetworkDefinition, definition::DefinitionDiff};
use crate::Error;
use ferroband_api::cncf::NetworkAttachmentDefinition;
use ferroband_daemon::api_call::{ApiFailure, classify, with_timeout};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use tracing::info;

/// Who we are to the API server.
pub const FIELD_MANAGER: &str = "ferroband-cluster";

/// How it stands with a definition after a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// It is as it should be.
    UpToDate,
    /// It belongs to somebody else.
    Foreign(String),
}

/// Make the definition what it should be, `there` being what the cache has.
///
/// Somebody may have been quicker: then the call is refused (409), and the next pass sees what they made of it.
pub async fn write_definition(
    client: &Client,
    wanted: &NetworkDefinition,
    there: Option<&NetworkAttachmentDefinition>,
) -> Result<WriteOutcome, Error> {
    let api: Api<NetworkAttachmentDefinition> = Api::namespaced(client.clone(), &wanted.namespace);
    let object = format!("{}/{}", wanted.namespace, wanted.name);
    let (action, answer) = match there.map(|there| wanted.diff(there)) {
        Some(DefinitionDiff::Same) => return Ok(WriteOutcome::UpToDate),
        Some(DefinitionDiff::Foreign(owner)) => return Ok(WriteOutcome::Foreign(owner)),
        Some(DefinitionDiff::Patch(patch)) => {
            let parameters =
                PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
            ("patch", with_timeout(api.patch(&wanted.name, &parameters, &Patch::Merge(&patch))).await)
        }
        None => {
            let parameters =
                PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
            ("create", with_timeout(api.create(&parameters, &wanted.to_object())).await)
        }
    };
    answer.map_err(Error::api(action, format!("network {object}")))?;
    info!(network = object, action, "network definition");
    Ok(WriteOutcome::UpToDate)
}

/// Delete a definition that has no object any more, if it is still the one that was seen.
pub async fn delete_definition(client: &Client, there: &NetworkAttachmentDefinition) -> Result<(), Error> {
    let (namespace, name) = (there.namespace().unwrap_or_default(), there.name_any());
    let api: Api<NetworkAttachmentDefinition> = Api::namespaced(client.clone(), &namespace);
    let seen = Preconditions { uid: there.uid(), resource_version: there.resource_version() };
    match with_timeout(api.delete(&name, &DeleteParams::default().preconditions(seen))).await {
        Err(e) if classify(&e) != ApiFailure::NotFound => {
            Err(Error::api("delete", format!("network {namespace}/{name}"))(e))
        }
        _ => {
            info!(network = format!("{namespace}/{name}"), "network definition deleted: its object is gone");
            Ok(())
        }
    }
}
