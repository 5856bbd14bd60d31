//! A UFM: partitions with a memory, behind HTTPS.
//!
//! What it answers follows the contract's facts about UFM, its versions' differences included ([`Manners`]). What goes wrong
//! is chosen by the test ([`Fault`]). Everything that changes its partitions is logged with the time.

mod document_003;
mod http;
mod injected_fault;
mod simulator;
mod state;
mod tls;
mod version_quirks;

pub use injected_fault::InjectedFault;
pub use simulator::{UfmSimulator, UfmSimulatorOptions};
pub use state::{MembershipEvent, RecordedCall, SimulatedMember};
pub use tls::TlsIdentity;
pub use version_quirks::{MissingPartitionReply, VersionQuirks};
