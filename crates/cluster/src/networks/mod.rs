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

mod configs;
mod definition;
mod ib;
mod ib_networks;
mod need;
mod plugins;
mod refused;
mod sources;
mod spider;
mod text;
mod told;
mod write;

pub use configs::Configs;
pub use definition::Definition;
pub use ib_networks::IbNetworks;
pub use need::{Member, Need, called, config_need, group_members, ib_need};
pub use refused::Refused;
pub use sources::Sources;
pub use spider::{GROUPS, wanted as config_wanted};

use crate::{Context, Error, Settings, Wake, keep};
use ferroband_api::{partition, sriov::SriovIBNetwork};
use ferroband_daemon::tasks::Tasks;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// What an object should become, and what its author should know.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// The definition.
    pub definition: Definition,
    /// What is not as it was meant to be written, though it is clear what is meant.
    pub warnings: Vec<String>,
}

/// Start the leader's part.
pub fn start(context: &Context, sources: &Sources, tasks: &mut Tasks<Error>) {
    let wake = Wake::default().on(tasks, &sources.configs).on(tasks, &sources.definitions);
    tasks.start_endless("SpiderMultusConfigs", keep(Configs::new(context, sources), wake));
    let wake = Wake::default()
        .on(tasks, &sources.ib_networks)
        .on(tasks, &sources.definitions)
        .on(tasks, &sources.namespaces);
    tasks.start_endless("SriovIBNetworks", keep(IbNetworks::new(context, sources), wake));
}

/// What a SriovIBNetwork should become. Only those in a system namespace may have their definition in another one.
pub fn ib_wanted(network: &SriovIBNetwork, settings: &Settings) -> Result<Wanted, Refused> {
    let wanted = ib::wanted(network, &settings.resource_prefix)?;
    let own = network.metadata.namespace.as_deref().unwrap_or_default();
    if wanted.definition.namespace == own || settings.is_system(own) {
        return Ok(wanted);
    }
    Err(Refused::Elsewhere(settings.honoured().join(", ")))
}

/// The text of a partition in a configuration. Hexadecimal, which everybody reads alike: what is written in decimal is
/// told apart from what others take for hexadecimal.
fn partition_text(
    field: &'static str,
    key: Option<&IntOrString>,
    warnings: &mut Vec<String>,
) -> Result<Option<String>, Refused> {
    let Some(named) = partition(key).map_err(|source| Refused::Word { field, source })? else {
        return Ok(None);
    };
    if named.text.starts_with("0x") || named.text.starts_with("0X") {
        return Ok(Some(named.text));
    }
    warnings.push(format!("{field}: {} is read as decimal, partition {}", named.text, named.key));
    Ok(Some(named.key.to_string()))
}
