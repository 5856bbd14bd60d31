//! A simulated UFM: stateful partitions over HTTPS.
//!
//! Responses follow the documented behaviour of UFM, including version differences ([`VersionQuirks`]). Tests inject
//! faults ([`InjectedFault`]). All membership changes are logged with their time.

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
