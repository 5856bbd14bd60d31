//! Caches of the API objects that an ADD needs, so that an ADD reads nothing from the API server.
//!
//! | cache | objects | used for |
//! |---|---|---|
//! | pods | metadata of this node's pods | network annotation, UID |
//! | networks | all network attachment definitions | networks that pods reference, in any namespace |
//! | spiderpool | copies of pools, reservations, metadata of namespaces and of this node | Spiderpool's pool selection |
//! | coordinator_defaults | SpiderCoordinator, ServiceCIDRs | routes of pods through their node |

mod coordinator_defaults;
mod networks;
mod pods;
mod spiderpool;
mod whereabouts_flat_file;

pub use coordinator_defaults::CoordinatorDefaults;
pub use ferroband_daemon::WatchCache;
pub use networks::NetworkDefinitionCache;
pub use pods::{NodePodCache, PodFacts, PodOwner};
pub use spiderpool::{PoolSelectionInput, SpiderpoolCache, SpiderpoolInterface};
pub use whereabouts_flat_file::read_flat_file;
