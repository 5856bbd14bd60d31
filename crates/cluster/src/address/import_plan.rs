//! Compares foreign records with address blocks. Does no I/O.

use super::foreign_records::{ForeignRecord, is_placeholder};
use ferroband_address::{AddressAllocation, IpSpace};

/// Identifies a foreign record in one space: its object, its key in the object, its sandbox, and the space.
pub type RecordKey = (String, String, String, IpSpace);

/// A foreign record compared with the entry of its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordState {
    /// The address has no entry yet.
    Missing,
    /// A placeholder withholds the address.
    Withheld,
    /// The entry is the record's, and its node releases it.
    Imported,
    /// Another sandbox of the same pod has the address, so the record is outdated.
    Superseded,
    /// The address had an entry for the record, which is gone, so the record is outdated.
    Released,
    /// Another pod has the address. It keeps the address; the record loses.
    Conflict,
}

pub fn record_key(record: &ForeignRecord) -> RecordKey {
    (record.source.clone(), record.key.clone(), record.entry_container(), record.slot.space.clone())
}

/// Returns the state of a record. `entry` is the entry of its address, and `known` whether the record had an entry
/// before.
pub fn record_state(record: &ForeignRecord, entry: Option<&AddressAllocation>, known: bool) -> RecordState {
    match entry {
        None if known => RecordState::Released,
        None => RecordState::Missing,
        Some(entry) if entry.container == record.entry_container() => match is_placeholder(entry) {
            true => RecordState::Withheld,
            false => RecordState::Imported,
        },
        Some(entry) if entry.pod == record.placeholder().pod => RecordState::Superseded,
        Some(_) => RecordState::Conflict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroband_address::{IpBlock, IpBlockId};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn record(key: u8, pod: u8, container: u8) -> ForeignRecord {
        let mut record = ForeignRecord {
            source: "IPPool a/b".into(),
            key: key.to_string(),
            pod: format!("ns/{pod}"),
            container: Some(format!("c{container}")),
            primary: true,
            ..ForeignRecord::default()
        };
        record.slot.address = [10, 0, 0, key].into();
        record
    }

    // Case: ipam W41
    #[test]
    fn a_record_is_outdated_with_its_sandbox_and_never_because_of_another_pod() {
        let entry = |pod: &str, container: &str, node: &str| AddressAllocation {
            pod: pod.into(),
            container: container.into(),
            node: node.into(),
            ..AddressAllocation::default()
        };
        let record = record(1, 1, 1);
        let state = |entry: Option<AddressAllocation>, known| record_state(&record, entry.as_ref(), known);
        assert_eq!(state(Some(entry("ns/1", "c1", "n")), false), RecordState::Imported);
        assert_eq!(state(Some(entry("ns/1", "c1", "")), false), RecordState::Withheld);
        assert_eq!(state(Some(entry("ns/1", "c2", "n")), false), RecordState::Superseded);
        assert_eq!(state(Some(entry("ns/2", "c2", "n")), true), RecordState::Conflict);
        assert_eq!(state(None, true), RecordState::Released);
        assert_eq!(state(None, false), RecordState::Missing);
    }

    #[test]
    fn an_entry_in_one_space_says_nothing_about_the_other() {
        let (primary, mut secondary) = (record(1, 1, 1), record(1, 1, 1));
        secondary.slot.space = IpSpace::from_text("pool/10.0.0.0/24");
        assert_ne!(record_key(&primary), record_key(&secondary));
    }

    proptest! {
        /// Invariant of the import: when no record is missing, no address of a record is free, and an entry that
        /// existed before is unchanged.
        #[test]
        fn import_takes_no_address_away_and_leaves_none_of_the_records_free(
            existing in proptest::collection::btree_map(0u8..16, (0u8..4, 0u8..4), 0..8),
            records in proptest::collection::btree_map(0u8..16, (0u8..4, 0u8..4), 0..16),
        ) {
            let (id, _) = IpBlockId::containing(&IpSpace::default_space(), [10, 0, 0, 0].into());
            let mut block = IpBlock::new(id, None);
            for (offset, (pod, container)) in &existing {
                let entry = AddressAllocation { node: "n".into(), ..record(*offset, *pod, *container).placeholder() };
                block.entries.insert(*offset, entry);
            }
            let before: BTreeMap<_, _> = block.entries.clone();
            for (offset, (pod, container)) in &records {
                let record = record(*offset, *pod, *container);
                if record_state(&record, block.entries.get(offset), false) == RecordState::Missing {
                    block.entries.insert(*offset, record.placeholder());
                }
            }
            for (offset, (pod, container)) in &records {
                let record = record(*offset, *pod, *container);
                let state = record_state(&record, block.entries.get(offset), false);
                prop_assert!(!matches!(state, RecordState::Missing | RecordState::Released));
            }
            prop_assert!(before.iter().all(|(offset, entry)| block.entries.get(offset) == Some(entry)));
        }
    }
}
