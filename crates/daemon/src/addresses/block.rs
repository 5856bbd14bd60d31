//! Granules as objects of the API server.

use ferroband_address::{AddressAllocation, IpBlock, IpSpace, ResourceVersion};
use ferroband_api::ferroband::{AddressBlock, AddressBlockEntry, AddressBlockSpec};
use std::net::AddrParseError;

/// Why an object is not a granule.
#[derive(Debug, thiserror::Error)]
pub enum InvalidBlock {
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
pub fn block_from_object(object: &AddressBlock) -> Result<(IpBlock, ResourceVersion), InvalidBlock> {
    let spec = &object.spec;
    let first = spec.first.parse().map_err(|e| InvalidBlock::First(spec.first.clone(), e))?;
    let mut granule = IpBlock {
        space: IpSpace::from_text(&spec.space),
        first,
        node: spec.node.clone(),
        entries: Default::default(),
    };
    for (offset, entry) in &spec.entries {
        let number = offset.parse().ok().filter(|number: &u8| *number < ferroband_address::IP_BLOCK_SIZE);
        let number = number.ok_or_else(|| InvalidBlock::Offset(offset.clone()))?;
        granule.entries.insert(number, allocation_from_entry(entry));
    }
    let name = granule.object_name();
    if object.metadata.name.as_deref() != Some(name.as_str()) {
        return Err(InvalidBlock::Name(name));
    }
    Ok((granule, ResourceVersion(object.metadata.resource_version.clone().unwrap_or_default())))
}

/// The object for `granule`, to be written over the state `expected`.
pub fn block_to_object(granule: &IpBlock, expected: Option<&ResourceVersion>) -> AddressBlock {
    let entries =
        granule.entries.iter().map(|(offset, entry)| (offset.to_string(), allocation_to_entry(entry)));
    let spec = AddressBlockSpec {
        space: granule.space.as_str().to_owned(),
        first: granule.first.to_string(),
        node: granule.node.clone(),
        entries: entries.collect(),
        used: granule.used().into(),
        free: granule.free().into(),
    };
    let mut object = AddressBlock::new(&granule.object_name(), spec);
    object.metadata.resource_version = expected.map(|version| version.0.clone());
    object
}

fn allocation_from_entry(entry: &AddressBlockEntry) -> AddressAllocation {
    AddressAllocation {
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

fn allocation_to_entry(entry: &AddressAllocation) -> AddressBlockEntry {
    AddressBlockEntry {
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
