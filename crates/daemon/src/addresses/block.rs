//! Conversion between AddressBlock objects and the blocks of the address engine.

use ferroband_address::{AddressAllocation, IpBlock, IpSpace, ResourceVersion};
use ferroband_api::ferroband::{AddressBlock, AddressBlockEntry, AddressBlockSpec};
use std::net::AddrParseError;

/// Why an AddressBlock object cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InvalidBlock {
    /// `spec.first` is not an IP address.
    #[error("spec.first {0:?} is not an IP address")]
    First(String, #[source] AddrParseError),
    /// A key of `spec.entries` is not a number from 0 to 15.
    #[error("spec.entries[{0:?}] is not an offset from 0 to 15")]
    Offset(String),
    /// The name does not match the space and first address. Only with that name does the API server reject a
    /// second object for the same addresses.
    #[error("metadata.name must be {0}, the name for this spec.space and spec.first")]
    Name(String),
}

/// Returns the block that `object` describes, and the object's resource version.
pub fn block_from_object(object: &AddressBlock) -> Result<(IpBlock, ResourceVersion), InvalidBlock> {
    let spec = &object.spec;
    let first = spec.first.parse().map_err(|e| InvalidBlock::First(spec.first.clone(), e))?;
    let mut block = IpBlock {
        space: IpSpace::from_text(&spec.space),
        first,
        node: spec.node.clone(),
        entries: Default::default(),
    };
    for (offset, entry) in &spec.entries {
        let number = offset.parse().ok().filter(|number: &u8| *number < ferroband_address::IP_BLOCK_SIZE);
        let number = number.ok_or_else(|| InvalidBlock::Offset(offset.clone()))?;
        block.entries.insert(number, allocation_from_entry(entry));
    }
    let name = block.object_name();
    if object.metadata.name.as_deref() != Some(name.as_str()) {
        return Err(InvalidBlock::Name(name));
    }
    Ok((block, ResourceVersion(object.metadata.resource_version.clone().unwrap_or_default())))
}

/// Returns the object for `block` with resource version `expected`, so that the API server rejects the write
/// if the object has changed since. `expected` is `None` if the block has no object yet.
pub fn block_to_object(block: &IpBlock, expected: Option<&ResourceVersion>) -> AddressBlock {
    let entries =
        block.entries.iter().map(|(offset, entry)| (offset.to_string(), allocation_to_entry(entry)));
    let spec = AddressBlockSpec {
        space: block.space.as_str().to_owned(),
        first: block.first.to_string(),
        node: block.node.clone(),
        entries: entries.collect(),
        used: block.used().into(),
        free: block.free().into(),
    };
    let mut object = AddressBlock::new(&block.object_name(), spec);
    object.metadata.resource_version = expected.map(|version| version.0.clone());
    object
}

fn allocation_from_entry(entry: &AddressBlockEntry) -> AddressAllocation {
    AddressAllocation {
        pod: entry.pod.clone(),
        uid: entry.uid.clone(),
        sticky: entry.sticky,
        interface: entry.interface.clone(),
        // The CRD schema limits the ordinal to 0 to 255.
        ordinal: u8::try_from(entry.ordinal).unwrap_or_default(),
        container: entry.container.clone(),
        node: entry.node.clone(),
        pool: entry.pool.clone(),
    }
}

fn allocation_to_entry(allocation: &AddressAllocation) -> AddressBlockEntry {
    AddressBlockEntry {
        pod: allocation.pod.clone(),
        uid: allocation.uid.clone(),
        sticky: allocation.sticky,
        interface: allocation.interface.clone(),
        ordinal: allocation.ordinal.into(),
        container: allocation.container.clone(),
        node: allocation.node.clone(),
        pool: allocation.pool.clone(),
    }
}
