//! Stage address: addresses are assigned in etcd, many in one write.
//!
//! ```text
//! ADD, DEL ──▶ Desk ──orders──▶ Committer ──plan (ferroband-address)──▶ Store ──▶ API server
//!                                   │  ▲                                  │ 409: read that granule, plan again
//!                       own writes  ▼  │ what is known                    │ away: wait, try again
//! watch of the granules ─────────▶ Ledger
//! ```
//!
//! One task commits. Whatever is ordered while it waits for the API server goes into its next round together, one
//! write for each granule, so the rate does not depend on how long one write takes.

mod commit;
mod desk;
mod evidence;
mod ledger;
mod probing;
mod round;
pub mod sandboxes;
mod store;
#[cfg(test)]
mod tests;
mod waiting;

pub use commit::Committer;
pub use desk::{Desk, Place, open};
pub use evidence::{Evidence, QUARANTINE};
pub use ledger::Ledger;
pub use probing::{Finding, Mode, Probing, findings};
pub use store::{ApiStore, Store, StoreError};
