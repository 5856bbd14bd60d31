//! What the API server holds that an ADD needs, kept here so that an ADD asks for nothing.
//!
//! | cache | what | why |
//! |---|---|---|
//! | pods | metadata of this node's pods | the network annotation, the UID |
//! | networks | all network attachment definitions | any pod may name any of them |
//! | spiderpool | pools and reservations, metadata of namespaces and of this node | where addresses may come from |
//! | surroundings | the coordinator's object, the subnets of services | ways of pods through their node |
//! | foreign | records of Whereabouts | which addresses are its own |
//! | granules | all address granules, in [`Ledger`](crate::address::Ledger) | which addresses are free |

mod address_blocks;
mod coordinator_defaults;
mod networks;
mod owners;
mod pods;
mod spiderpool;
mod whereabouts_records;

pub use address_blocks::watch_address_blocks as watch_granules;
pub use coordinator_defaults::CoordinatorDefaults;
use ferroband_daemon::watch_cache;
pub use ferroband_daemon::watch_cache::WatchCache;
pub use networks::NetworkDefinitionCache;
pub use owners::PodOwner;
pub use pods::{NodePodCache, PodFacts};
pub use spiderpool::{PoolSelectionInput, SpiderpoolCache, SpiderpoolInterface};
pub use whereabouts_records::WhereaboutsRecords;
