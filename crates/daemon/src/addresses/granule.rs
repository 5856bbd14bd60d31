//! Granules as objects of the API server.

use ferroband_address::{Entry, Granule, Space, Version};
use ferroband_api::ferroband::{AddressGranule, AddressGranuleSpec, GranuleEntry};
use std::net::AddrParseError;

/// Why an object is not a granule.
#[derive(Debug, thiserror::Error)]
pub enum NotGranule {
    /// `first` is not an address.
    #[error("spec.first {0:?} is not an address")]
    First(String, #[source] AddrParseError),
    /// An offset is not a number from 0 to 15.
    #[error("spec.entries[{0:?}] is not an offset from 0 to 15")]
    Offset(String),
    /// Its name does not follow from space and first address, so nobody arbitrates its addresses.
    #[error("its name should be {0}")]
    Name(String),
}

/// The granule in `object`, and the version that it is at.
pub fn granule_of(object: &AddressGranule) -> Result<(Granule, Version), NotGranule> {
    let spec = &object.spec;
    let first = spec.first.parse().map_err(|e| NotGranule::First(spec.first.clone(), e))?;
    let mut granule = Granule {
        space: Space::from_text(&spec.space),
        first,
        node: spec.node.clone(),
        entries: Default::default(),
    };
    for (offset, entry) in &spec.entries {
        let number = offset.parse().ok().filter(|number: &u8| *number < ferroband_address::GRANULE_SIZE);
        let number = number.ok_or_else(|| NotGranule::Offset(offset.clone()))?;
        granule.entries.insert(number, entry_of(entry));
    }
    let name = granule.object_name();
    if object.metadata.name.as_deref() != Some(name.as_str()) {
        return Err(NotGranule::Name(name));
    }
    Ok((granule, Version(object.metadata.resource_version.clone().unwrap_or_default())))
}

/// The object for `granule`, to be written over the state `expected`.
pub fn object_of(granule: &Granule, expected: Option<&Version>) -> AddressGranule {
    let entries = granule.entries.iter().map(|(offset, entry)| (offset.to_string(), object_entry(entry)));
    let spec = AddressGranuleSpec {
        space: granule.space.as_str().to_owned(),
        first: granule.first.to_string(),
        node: granule.node.clone(),
        entries: entries.collect(),
        used: granule.used().into(),
        free: granule.free().into(),
    };
    let mut object = AddressGranule::new(&granule.object_name(), spec);
    object.metadata.resource_version = expected.map(|version| version.0.clone());
    object
}

fn entry_of(entry: &GranuleEntry) -> Entry {
    Entry {
        pod: entry.pod.clone(),
        uid: entry.uid.clone(),
        sticky: entry.sticky,
        interface: entry.interface.clone(),
        // The schema keeps it in range.
        ordinal: u8::try_from(entry.ordinal).unwrap_or_default(),
        container: entry.container.clone(),
        node: entry.node.clone(),
        pool: entry.pool.clone(),
    }
}

fn object_entry(entry: &Entry) -> GranuleEntry {
    GranuleEntry {
        pod: entry.pod.clone(),
        uid: entry.uid.clone(),
        sticky: entry.sticky,
        interface: entry.interface.clone(),
        ordinal: entry.ordinal.into(),
        container: entry.container.clone(),
        node: entry.node.clone(),
        pool: entry.pool.clone(),
    }
}
