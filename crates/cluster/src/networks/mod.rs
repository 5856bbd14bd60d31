//! Networks that people write in sections become the definitions that pods name.
//!
//! ```text
//!  SpiderMultusConfig ──spider::wanted──┐
//!                                       ├──▶ Definition ──standing──▶ create, patch what differs, or leave it:
//!  SriovIBNetwork ──────ib::wanted──────┘                             it is somebody else's
//!
//!  definition without its object ──▶ deleted: by Kubernetes (owner reference) in one namespace, by us across
//! ```
//!
//! Both kinds and the definitions are watched, so a definition that somebody edits or deletes is put right at once. An
//! object that cannot become a network keeps the definition it had, and says why: in its condition where the kind has
//! one, in an event where it has none.

mod caches;
mod dedup;
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
pub use definition::NetworkDefinition;
pub use error::NetworkSpecError;
pub use ib_networks::IbNetworkController;
pub use resource_request::{
    GroupNetwork, ResourceRequest, config_resource_request, definition_name_annotation, group_networks,
    ib_resource_request,
};
pub use spider_configs::SpiderConfigController;
pub use spider_definition::{GROUP_ANNOTATIONS, desired as config_wanted};

use crate::{ClusterSettings, ControllerContext, Error, Trigger, run_controller};
use ferroband_api::{parse_pkey_field, sriov::SriovIBNetwork};
use ferroband_daemon::tasks::TaskSet;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// What an object should become, and what its author should know.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredNetwork {
    /// The definition.
    pub definition: NetworkDefinition,
    /// What is not as it was meant to be written, though it is clear what is meant.
    pub warnings: Vec<String>,
}

/// Start the leader's part.
pub fn start(context: &ControllerContext, sources: &NetworkCaches, tasks: &mut TaskSet<Error>) {
    let wake =
        Trigger::default().on_change(tasks, &sources.spider_configs).on_change(tasks, &sources.definitions);
    tasks.start_endless(
        "SpiderMultusConfigs",
        run_controller(SpiderConfigController::new(context, sources), wake),
    );
    let wake = Trigger::default()
        .on_change(tasks, &sources.ib_networks)
        .on_change(tasks, &sources.definitions)
        .on_change(tasks, &sources.namespace_groups);
    tasks.start_endless("SriovIBNetworks", run_controller(IbNetworkController::new(context, sources), wake));
}

/// What a SriovIBNetwork should become. Only those in a system namespace may have their definition in another one.
pub fn desired_ib_network(
    network: &SriovIBNetwork,
    settings: &ClusterSettings,
) -> Result<DesiredNetwork, NetworkSpecError> {
    let wanted = ib_definition::desired(network, &settings.resource_prefix)?;
    let own = network.metadata.namespace.as_deref().unwrap_or_default();
    if wanted.definition.namespace == own || settings.is_system_namespace(own) {
        return Ok(wanted);
    }
    Err(NetworkSpecError::ForbiddenNamespace(settings.system_namespaces().join(", ")))
}

/// The text of a partition in a configuration. Hexadecimal, which everybody reads alike: what is written in decimal is
/// told apart from what others take for hexadecimal.
fn pkey_text(
    field: &'static str,
    key: Option<&IntOrString>,
    warnings: &mut Vec<String>,
) -> Result<Option<String>, NetworkSpecError> {
    let Some(named) =
        parse_pkey_field(key).map_err(|source| NetworkSpecError::InvalidValue { field, source })?
    else {
        return Ok(None);
    };
    if named.text.starts_with("0x") || named.text.starts_with("0X") {
        return Ok(Some(named.text));
    }
    warnings.push(format!("{field}: {} is read as decimal, partition {}", named.text, named.key));
    Ok(Some(named.key.to_string()))
}
