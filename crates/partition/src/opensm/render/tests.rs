use super::*;
use crate::Membership;
use ferroband_model::Guid;
use proptest::prelude::*;

fn table(members: &[(u16, u64, Membership)]) -> MembershipTable {
    members
        .iter()
        .map(|(key, guid, kind)| (RequestedPKey::new(*key).unwrap(), Guid::new(*guid), *kind))
        .collect()
}

// Case: partitions 39, partitions 69
#[test]
fn membership_and_index0_are_rendered() {
    let mut desired = table(&[
        (5, 0x0200_0000_0000_3001, Membership::Full),
        (5, 0x0200_0000_0000_4001, Membership::Limited),
        (5, 0xb859_9f03_00a1_b2c4, Membership::Full),
    ]);
    for function in [0x0200_0000_0000_3001, 0x0200_0000_0000_4001] {
        desired.add_function(Guid::new(function));
    }
    let text = render(None, &desired).unwrap();
    assert_eq!(
        text,
        format!(
            "{BEGIN_MARKER}\n\
             Default=0x7fff,ipoib,defmember=full: ALL, SELF=full,\n \
             0x0200000000003001=limited, 0x0200000000004001=limited;\n\
             fb0005=0x0005,indx0,ipoib,defmember=full:\n \
             0x0200000000003001=full, 0x0200000000004001=limited;\n\
             fb0005=0x0005,ipoib,defmember=full:\n \
             0xb8599f0300a1b2c4=full;\n\
             {END_MARKER}\n"
        )
    );
    assert_eq!(parse_members(&text).unwrap(), (desired, false));
}

#[test]
fn only_functions_are_limited_members_of_the_default_partition_unless_asked() {
    let mut desired = table(&[(5, 0x0200_0000_0000_3001, Membership::Full)]);
    let text = render(None, &desired).unwrap();
    assert!(text.contains("Default=0x7fff,ipoib,defmember=full: ALL, SELF=full;"), "{text}");
    assert!(parse_members(&text).unwrap().1, "no function is limited");
    // A function without a partition is limited too, or its pod could reach limited members.
    for guid in [0x0200_0000_0000_3001, 0x0200_0000_0000_5001] {
        desired.add_function(Guid::new(guid));
    }
    let text = render(None, &desired).unwrap();
    assert!(text.contains("0x0200000000005001=limited"), "{text}");
    assert_eq!(parse_members(&text).unwrap(), (desired.clone(), false));
    desired.set_default_membership(Membership::Limited);
    let text = render(None, &desired).unwrap();
    assert!(text.contains("Default=0x7fff,ipoib,defmember=limited: ALL, SELF=full;"), "{text}");
    let (parsed, open) = parse_members(&text).unwrap();
    assert!(!open && render(None, &parsed).unwrap() == text, "the node renders the same text");
}

// Case: partitions 71
#[test]
fn empty_table_still_defines_the_default_partition() {
    let text = render(None, &MembershipTable::default()).unwrap();
    assert_eq!(parse(&text).unwrap().statements.len(), 1);
    for broken in [
        "",
        ";",
        "# nothing\n",
        "Default=0x7fff: ALL",
        "Default=0x7fff ALL;",
        "a=0x5: 0x1;",
        "a=0: ALL;",
        "a=0x8005: ALL;",
        "a=0x10005: ALL;",
        "a: ALL;",
        "a=0x5,indx: ALL;",
        "a=0x5: 020000000000ab01;",
        "a=0x5: ALL=f;",
        "a=0x5,defmember=both: ALL;",
        "a=0x5\n: ALL;",
    ] {
        assert!(parse(broken).is_err(), "{broken:?}");
    }
    let long = format!("a=0x5: {};", ["0x0200000000003001"; 300].join(","));
    assert!(parse(&long).unwrap_err().to_string().contains("truncates"));
}

// Case: partitions 70
#[test]
fn five_thousand_members_are_split_into_short_lines() {
    let members: Vec<_> = (0..5000).map(|n| (5, 0x0200_0000_0000_0000 + n, Membership::Full)).collect();
    let desired = table(&members);
    let text = render(None, &desired).unwrap();
    assert!(text.lines().all(|line| line.len() < 4000));
    assert_eq!(parse_members(&text).unwrap().0, desired);
}

#[test]
fn text_outside_of_the_section_is_preserved() {
    let foreign = "# storage team\nDefault=0x7fff,ipoib: ALL=full, SELF=full;\nstorage=0x0100,ipoib: 0xe41d2d0300000001=full;\n";
    let first = render(Some(foreign), &table(&[(5, 0x0200_0000_0000_0001, Membership::Full)])).unwrap();
    assert!(first.starts_with(foreign));
    assert_eq!(first.matches("0x7fff").count(), 1);
    assert!(parse_members(&first).unwrap().1, "every port is a full member of the default partition");
    let second = render(Some(&first), &table(&[(6, 0x0200_0000_0000_0002, Membership::Full)])).unwrap();
    assert!(second.starts_with(foreign) && !second.contains("fb0005") && second.contains("fb0006"));
    let error =
        render(Some(foreign), &table(&[(0x100, 0x0200_0000_0000_0002, Membership::Full)])).unwrap_err();
    assert!(error.to_string().contains("outside of Ferroband's section"), "{error}");
    for broken in
        [&first.replace(END_MARKER, ""), &first.replace(BEGIN_MARKER, ""), "storage=0x0100: nonsense;\n"]
    {
        assert!(render(Some(broken), &MembershipTable::default()).is_err(), "{broken}");
    }
}

/// `verify` is the last check before a file is written, and finds errors that `render` should not make.
#[test]
fn file_that_opens_the_fabric_or_loses_a_partition_is_not_rendered() {
    let desired = table(&[(5, 0x0200_0000_0000_0001, Membership::Full)]);
    let (default, storage) = ("Default=0x7fff: ALL;", "storage=0x100: 0xe41d2d0300000001=full;");
    let (own, limited) = ("a=0x5: 0x0200000000000001=full;", "a=0x5: 0x0200000000000001=limited;");
    let foreign = parse(storage).unwrap();
    let check = |text: String| verify(&parse(&text).unwrap(), &foreign, &desired);
    check(format!("{default}{storage}{own}")).unwrap();
    for (text, problem) in [
        (format!("{storage}{own}"), "default partition"),
        (format!("{default}{storage}"), "desired memberships"),
        (format!("{default}{storage}{limited}"), "desired memberships"),
        (format!("{default}{own}"), "outside of Ferroband's section"),
    ] {
        let error = check(text).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}

proptest! {
    #[test]
    fn rendered_table_parses_back_to_the_same(
        members in proptest::collection::vec((1_u16..0x7fff, 1..u64::MAX, any::<bool>()), 0..200)
    ) {
        let kind = |limited| if limited { Membership::Limited } else { Membership::Full };
        let members: Vec<_> = members.into_iter().map(|(key, guid, limited)| (key, guid, kind(limited))).collect();
        let desired = table(&members);
        let text = render(None, &desired).unwrap();
        prop_assert_eq!(parse_members(&text).unwrap().0, desired);
    }

    /// The parser never panics, and never returns a file without statements.
    #[test]
    fn parser_accepts_any_input_without_panic(text in "[a-zA-Z0-9=,:;# \n_x]{0,200}") {
        if let Ok(file) = parse(&text) {
            prop_assert!(!file.statements.is_empty());
        }
    }
}

#[test]
fn line_ends_of_others_are_preserved() {
    let existing = "Default=0x7fff: ALL, SELF=full;\r\n# a\r\r\n";
    let rendered = render(Some(existing), &MembershipTable::default()).unwrap();
    assert!(rendered.starts_with(existing), "{rendered:?}");
    assert_eq!(render(Some(&rendered), &MembershipTable::default()).unwrap(), rendered);
}
