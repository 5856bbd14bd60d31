//! Definitions, written.

use super::{Definition, definition::Standing};
use crate::Error;
use ferroband_api::cncf::NetworkAttachmentDefinition;
use ferroband_daemon::call::{Failure, bounded, failure};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use tracing::info;

/// Who we are to the API server.
pub const MANAGER: &str = "ferroband-cluster";

/// How it stands with a definition after a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is as it should be.
    Good,
    /// It belongs to somebody else.
    Foreign(String),
}

/// Make the definition what it should be, `there` being what the cache has.
///
/// Somebody may have been quicker: then the call is refused (409), and the next pass sees what they made of it.
pub async fn put(
    client: &Client,
    wanted: &Definition,
    there: Option<&NetworkAttachmentDefinition>,
) -> Result<Written, Error> {
    let api: Api<NetworkAttachmentDefinition> = Api::namespaced(client.clone(), &wanted.namespace);
    let object = format!("{}/{}", wanted.namespace, wanted.name);
    let (action, answer) = match there.map(|there| wanted.standing(there)) {
        Some(Standing::Same) => return Ok(Written::Good),
        Some(Standing::Foreign(owner)) => return Ok(Written::Foreign(owner)),
        Some(Standing::Differs(patch)) => {
            let parameters =
                PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
            ("patch", bounded(api.patch(&wanted.name, &parameters, &Patch::Merge(&patch))).await)
        }
        None => {
            let parameters = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
            ("create", bounded(api.create(&parameters, &wanted.object())).await)
        }
    };
    answer.map_err(Error::api(action, format!("network {object}")))?;
    info!(network = object, action, "network definition");
    Ok(Written::Good)
}

/// Delete a definition that has no object any more, if it is still the one that was seen.
pub async fn delete(client: &Client, there: &NetworkAttachmentDefinition) -> Result<(), Error> {
    let (namespace, name) = (there.namespace().unwrap_or_default(), there.name_any());
    let api: Api<NetworkAttachmentDefinition> = Api::namespaced(client.clone(), &namespace);
    let seen = Preconditions { uid: there.uid(), resource_version: there.resource_version() };
    match bounded(api.delete(&name, &DeleteParams::default().preconditions(seen))).await {
        Err(e) if failure(&e) != Failure::NotFound => {
            Err(Error::api("delete", format!("network {namespace}/{name}"))(e))
        }
        _ => {
            info!(network = format!("{namespace}/{name}"), "network definition deleted: its object is gone");
            Ok(())
        }
    }
}
