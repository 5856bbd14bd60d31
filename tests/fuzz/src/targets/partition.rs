//! What subnet managers answer, and their files.

use ferroband_model::Guid;
use ferroband_partition::opensm::{parse, parse_members, render};
use ferroband_partition::{Membership, MembershipTable, RequestedPKey, ufm as client};

/// An answer of UFM.
pub fn ufm(bytes: &[u8]) {
    let Some((report, _)) = client::parse_anything(bytes) else { return };
    // A key outside of the range would be the default partition, or none.
    assert!(report.members.keys().all(|key| (1..0x7fff).contains(&key.number())));
}

/// A partitions.conf that somebody else wrote. Ferroband's section is added only if all of the file is understood, and
/// the result then contains Ferroband's members and all partitions of the file.
pub fn partitions(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = parse_members(&text);
    let Some(key) = RequestedPKey::new(0x3e8) else { return };
    let guid = Guid::new(0x0200_0000_0000_0001);
    let mut desired = MembershipTable::default();
    desired.set(key, guid, Membership::Full);
    desired.add_function(guid);
    let Ok(rendered) = render(Some(&text), &desired) else { return };
    let file = parse(&rendered).expect("what is written is understood");
    let has_member = |number: u16| {
        file.statements
            .iter()
            .any(|one| one.number == number && one.members.contains(&(guid, Membership::Full)))
    };
    assert!(has_member(0x3e8), "{rendered}");
    assert!(file.statements.iter().any(|one| one.number == 0x7fff), "the default partition: {rendered}");
    assert_eq!(render(Some(&rendered), &desired).ok().as_deref(), Some(rendered.as_str()), "idempotent");
}
