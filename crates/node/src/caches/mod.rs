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

mod foreign;
mod granules;
mod networks;
mod owners;
mod pods;
mod spiderpool;
mod surroundings;

use ferroband_daemon::watching;
pub use ferroband_daemon::watching::Cache;
pub use foreign::Foreign;
pub use granules::watch as watch_granules;
pub use networks::Networks;
pub use owners::PodOwner;
pub use pods::{PodFacts, Pods};
pub use spiderpool::{Around, Interface, Spiderpool};
pub use surroundings::Surroundings;
