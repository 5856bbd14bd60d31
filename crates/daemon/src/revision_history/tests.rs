use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

/// A daemon that has seen revision 1000 while no restore was known.
fn history() -> RevisionHistory {
    let mut history = RevisionHistory::default();
    history.observe_current(0, 1000, "", at(0));
    assert_eq!(history.noticed, None);
    history
}

#[test]
fn a_lower_revision_means_a_restore() {
    let mut history = history();
    history.observe_current(1000, 1000, "", at(1));
    assert_eq!(history.noticed, None, "nothing was written in between");
    history.observe_current(1000, 990, "", at(2));
    assert_eq!(history.noticed.as_ref().unwrap().epoch, "");
    assert_eq!(history.revision, 990, "the history continues from the backup");
    history.observe_current(990, 995, "", at(3));
    assert!(history.noticed.is_some(), "noticed until the AddressState shows it");
    history.observe_epoch("e1");
    assert_eq!(history.noticed, None);
}

#[test]
fn a_response_that_was_overtaken_is_no_evidence() {
    let mut history = history();
    history.observe_version(1010, at(1));
    // This list began when revision 1000 was the highest.
    history.observe_current(1000, 1005, "", at(1));
    assert_eq!((history.noticed, history.revision), (None, 1010));
}

#[test]
fn an_old_object_is_no_evidence() {
    let mut history = history();
    history.observe_version(5, at(1));
    assert_eq!((history.noticed, history.revision), (None, 1000));
}

#[test]
fn a_jump_means_a_restore_unless_the_daemon_was_away_for_long() {
    for observe in [
        |history: &mut RevisionHistory, revision, now| history.observe_current(1000, revision, "", now),
        |history: &mut RevisionHistory, revision, now| history.observe_version(revision, now),
    ] {
        let mut seen = history();
        observe(&mut seen, 1000 + RESTORE_JUMP, at(60));
        assert_eq!(seen.noticed, None);
        let mut seen = history();
        observe(&mut seen, 1001 + RESTORE_JUMP, at(60));
        assert!(seen.noticed.is_some());
        assert_eq!(seen.revision, 1001 + RESTORE_JUMP);
        let mut seen = history();
        observe(&mut seen, 1001 + RESTORE_JUMP, at(86_400));
        assert_eq!(seen.noticed, None, "so many writes are possible in a day");
        let mut seen = history();
        observe(&mut seen, 1000 + 1_000_000_000, at(3600));
        assert!(seen.noticed.is_some());
    }
}

#[test]
fn a_first_daemon_notices_nothing() {
    let mut history = RevisionHistory::default();
    history.observe_current(0, 5_000_000_000, "e1", at(0));
    assert_eq!((history.noticed, history.revision), (None, 5_000_000_000));
}

#[test]
fn a_restore_that_the_leader_knows_is_not_noticed_again() {
    let mut seen = history();
    seen.observe_current(1000, 990, "e1", at(2));
    assert_eq!((seen.noticed, seen.revision), (None, 990));

    // A backup of before that epoch is restored, whether or not this daemon knows what it contains.
    for (revision, older) in [(990, ""), (1010, ""), (990, "e0"), (1010, "e0")] {
        let mut seen = history();
        seen.observe_epoch("e1");
        seen.observe_current(1000, revision, older, at(2));
        assert_eq!(seen.noticed.as_ref().unwrap().epoch, older);
        seen.observe_current(1000, revision, older, at(3));
        assert!(seen.noticed.is_some());
        seen.observe_epoch("e2");
        assert_eq!(seen.noticed, None);
    }
}

#[test]
fn a_long_silence_is_a_gap() {
    let gaps_after = |seconds| {
        let mut history = history();
        assert_eq!(history.gaps, 1, "the first start");
        history.observe_current(1000, 1001, "", at(seconds));
        history.gaps
    };
    assert_eq!([0, 600, 601, -60].map(gaps_after), [1, 1, 2, 2]);
}
