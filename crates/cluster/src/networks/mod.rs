//! Network controllers: generate the NetworkAttachmentDefinitions of SpiderMultusConfigs and SriovIBNetworks.
//!
//! ```text
//!  SpiderMultusConfig ──spider_definition──┐
//!                                          ├──▶ NetworkDefinition ──diff──▶ create, patch, or leave unchanged
//!  SriovIBNetwork ──────ib_definition──────┘                                (it belongs to another owner)
//!
//!  definition without its object ──▶ deleted: by Kubernetes (owner reference) in one namespace, by IbNetworkController
//!                                    across namespaces
//! ```
//!
//! Both kinds and the definitions are watched, so a definition that is edited or deleted is restored at once. An
//! invalid object keeps its previous definition and reports the problem: in its condition if the kind has conditions,
//! otherwise in an event.

mod bounds;
mod caches;
mod coordinator_spec;
mod definition;
mod error;
mod generated_plugins;
mod ib_definition;
mod ib_networks;
mod json_text;
mod resource_request;
mod spider_configs;
mod spider_definition;
mod write;

pub use caches::NetworkCaches;
pub use coordinator_spec::validate as validate_coordinator;
pub use definition::NetworkDefinition;
pub use error::NetworkSpecError;
pub use ib_networks::IbNetworkController;
pub use resource_request::{
    GroupNetwork, ResourceRequest, config_resource_request, definition_name_annotation, group_networks,
    ib_resource_request,
};
pub use spider_configs::SpiderConfigController;
pub use spider_definition::{GROUP_ANNOTATIONS, desired as desired_spider_network};

use crate::{ClusterSettings, ControllerContext, Error};
use ferroband_api::{parse_pkey_field, sriov::SriovIBNetwork};
use ferroband_daemon::{Trigger, start_controller, tasks::TaskSet};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The NetworkAttachmentDefinition generated from a SpiderMultusConfig or SriovIBNetwork, and warnings for
/// the author of this object.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredNetwork {
    pub definition: NetworkDefinition,
    /// Warnings about tolerated deviations from the documented format. Shown to the author of the object.
    pub warnings: Vec<String>,
}

pub fn start(context: &ControllerContext, caches: &NetworkCaches, tasks: &mut TaskSet<Error>) {
    let trigger = Trigger::default().on_change(&caches.spider_configs).on_change(&caches.definitions);
    start_controller(tasks, SpiderConfigController::new(context, caches), trigger);
    let trigger = Trigger::default()
        .on_change(&caches.ib_networks)
        .on_change(&caches.definitions)
        .on_change(&caches.namespace_groups);
    start_controller(tasks, IbNetworkController::new(context, caches), trigger);
}

/// Computes the NetworkAttachmentDefinition of a SriovIBNetwork. Fails if the definition belongs in another
/// namespace and the SriovIBNetwork is not in a trusted namespace.
pub fn desired_ib_network(
    network: &SriovIBNetwork,
    settings: &ClusterSettings,
) -> Result<DesiredNetwork, NetworkSpecError> {
    let desired = ib_definition::desired(network, &settings.resource_prefix)?;
    let own = network.metadata.namespace.as_deref().unwrap_or_default();
    if desired.definition.namespace == own || settings.tenants.is_trusted(own) {
        return Ok(desired);
    }
    Err(NetworkSpecError::ForbiddenNamespace(settings.trusted_namespaces().join(", ")))
}

/// Returns the text of a P_Key for a CNI configuration. A decimal value is converted to hexadecimal, with a warning,
/// because some plugins read decimal digits as hexadecimal.
fn pkey_text(
    field: &'static str,
    key: Option<&IntOrString>,
    warnings: &mut Vec<String>,
) -> Result<Option<String>, NetworkSpecError> {
    let Some(pkey) =
        parse_pkey_field(key).map_err(|source| NetworkSpecError::InvalidPKey { field, source })?
    else {
        return Ok(None);
    };
    if pkey.text.starts_with("0x") || pkey.text.starts_with("0X") {
        return Ok(Some(pkey.text));
    }
    warnings.push(format!("{field}: {} is read as a decimal P_Key; write {} instead", pkey.text, pkey.key));
    Ok(Some(pkey.key.to_string()))
}
