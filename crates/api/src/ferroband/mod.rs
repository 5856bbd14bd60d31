//! `ferroband.io`: the kinds that are ours.

mod address_granule;

pub use address_granule::{AddressGranule, AddressGranuleSpec, GranuleEntry};
