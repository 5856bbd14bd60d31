//! Partitions of the fabric: which GUIDs there are, which of them is a member of which P_Key, and the subnet
//! manager that makes it so.
//!
//! A partition is what keeps tenants apart on InfiniBand, so the rules are few and strict: what is wanted and
//! what the subnet manager has are two tables, and only their difference is ever sent; only what is ours is
//! ever touched; and a request whose outcome is not known counts as neither done nor undone.
//!
//! ```text
//! GuidRange ──cluster's id──▶ Share ──granules of 256──▶ GUIDs that functions keep, where the administrator named a range,
//!                                                       and those that pods ask for, while they have them
//!
//! wanted (from the nodes' objects) ┐
//!                                  ├─ diff ─▶ Programmer ─▶ batches ─▶ SubnetManager ─┬─ ufm     REST
//! seen (what the manager lists)  ──┘   ▲   backoff, deadlines                         ├─ opensm  partitions.conf
//!                                      └────── outcome, list ◀────────────────────────┴─ none
//! ```
//!
//! Pure except for the managers themselves, which are the only part of the product that speaks HTTP to a
//! fabric. What is durable lies in the API server, and everything here is rebuilt from that and the fabric.

mod backoff;
mod change;
mod error;
mod granule;
mod key;
mod membership;
pub mod opensm;
mod owned;
mod programmer;
mod range;
mod run;
mod settings;
mod share;
mod subnet_manager;
mod table;
pub mod ufm;

pub use backoff::Backoff;
pub use change::{Change, diff};
pub use error::{BadSetting, Error, Kind};
pub use granule::{Claim, Draft, GRANULE, Granule, choose, claim, granule_of, name_of, without};
pub use key::{BadKey, Key, KeyRange};
pub use membership::Membership;
pub use owned::Owned;
pub use programmer::{Programmer, Standing};
pub use range::{GuidRange, parse_guid};
pub use run::{Health, Running, run};
pub use settings::{Plugin, Settings};
pub use share::Share;
pub use subnet_manager::{Absent, Batch, Fabric, Pace, SubnetManager};
pub use table::Table;
