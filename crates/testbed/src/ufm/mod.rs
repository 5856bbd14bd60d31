//! A UFM: partitions with a memory, behind HTTPS.
//!
//! What it answers follows the contract's facts about UFM, its versions' differences included ([`Manners`]). What goes wrong
//! is chosen by the test ([`Fault`]). Everything that changes its partitions is logged with the time.

mod documented;
mod fault;
mod http;
mod manners;
mod serve;
mod state;
mod tls;

pub use fault::Fault;
pub use manners::{Manners, Missing};
pub use serve::{Simulator, Start};
pub use state::{Call, Event, Member};
pub use tls::Identity;
