use super::*;
use crate::Membership;
use proptest::prelude::*;

const EACH: RateLimits = RateLimits { window: Duration::ZERO, interval: Duration::ZERO, max_in_flight: 4 };
const WHOLE: RateLimits = RateLimits { window: Duration::ZERO, interval: Duration::ZERO, max_in_flight: 1 };

fn key(number: u16) -> PKeyBase {
    PKeyBase::new(number).unwrap()
}

fn table(members: &[(u16, u64)]) -> MembershipTable {
    members.iter().map(|(k, g)| (key(*k), Guid::new(*g), Membership::Full)).collect()
}

fn owned() -> Ownership {
    Ownership { guids: (1..100).map(Guid::new).collect(), ..Ownership::default() }
}

fn away() -> Result<(), Error> {
    Err(Error::Timeout { manager: "m".into(), request: "r".into(), timeout: Duration::from_secs(1) })
}

fn programmer(wanted: &[(u16, u64)], seen: &[(u16, u64)]) -> PartitionReconciler {
    let mut programmer = PartitionReconciler::default();
    programmer.set_desired(table(wanted), owned());
    let mark = programmer.begin_list();
    programmer.record_list(mark, table(seen), false);
    programmer
}

#[test]
fn nothing_is_sent_before_the_first_list() {
    let mut programmer = PartitionReconciler::default();
    programmer.set_desired(table(&[(5, 1)]), owned());
    assert!(programmer.start_batches(Instant::now(), EACH).is_empty());
    assert_eq!(programmer.membership_state(key(5), Guid::new(1)), MembershipState::Pending);
}

#[test]
fn case_26_all_members_of_a_partition_go_in_one_batch() {
    let mut programmer = programmer(&[(5, 1), (5, 2), (6, 3)], &[]);
    let now = Instant::now();
    let batches = programmer.start_batches(now, EACH);
    assert_eq!(batches.len(), 2);
    assert_eq!(batches[0].changes[&key(5)].add.len(), 2);
    assert!(batches[0].changes[&key(5)].remove.is_empty());
    assert!(programmer.start_batches(now, EACH).is_empty(), "under way");
    batches.iter().for_each(|batch| programmer.finish_batch(batch, &Ok(()), now));
    assert_eq!(programmer.membership_state(key(5), Guid::new(1)), MembershipState::Programmed);
    assert!(programmer.start_batches(now, EACH).is_empty(), "done");
}

#[test]
fn a_manager_that_takes_all_or_nothing_gets_one_batch() {
    let mut programmer = programmer(&[(5, 1), (6, 3)], &[(7, 9)]);
    let batches = programmer.start_batches(Instant::now(), WHOLE);
    assert_eq!(batches.len(), 1);
    assert_eq!(batches[0].changes.len(), 3);
}

#[test]
fn case_45_a_partition_that_fails_waits_alone() {
    let mut programmer = programmer(&[(5, 1), (6, 3)], &[]);
    let now = Instant::now();
    let batches = programmer.start_batches(now, EACH);
    programmer.finish_batch(&batches[0], &away(), now);
    programmer.finish_batch(&batches[1], &Ok(()), now);
    assert!(matches!(
        programmer.membership_state(key(5), Guid::new(1)),
        MembershipState::Failing { attempts: 1, .. }
    ));
    assert_eq!(programmer.membership_state(key(6), Guid::new(3)), MembershipState::Programmed);
    assert!(programmer.start_batches(now, EACH).is_empty());
    let wait = programmer.next_retry(now).unwrap();
    let again = programmer.start_batches(now + wait, EACH);
    assert_eq!(again.len(), 1);
    // B8: a retry is the same request, no removal before it.
    assert_eq!(again[0].changes, batches[0].changes);
}

#[test]
fn case_47_a_late_answer_may_have_been_done() {
    let mut programmer = programmer(&[(5, 1)], &[]);
    let now = Instant::now();
    let batch = programmer.start_batches(now, EACH).remove(0);
    programmer.finish_batch(&batch, &away(), now);
    programmer.set_desired(MembershipTable::default(), owned());
    assert!(!programmer.is_in_no_partition(Guid::new(1)), "not known to be out");
    let later = now + Duration::from_secs(60);
    let removal = programmer.start_batches(later, EACH).remove(0);
    assert_eq!(removal.changes[&key(5)].remove, BTreeSet::from([Guid::new(1)]));
    programmer.finish_batch(&removal, &Ok(()), later);
    assert!(programmer.is_in_no_partition(Guid::new(1)));
}

#[test]
fn case_55_deleted_while_it_is_being_added() {
    let mut programmer = programmer(&[(5, 1)], &[]);
    let now = Instant::now();
    let batch = programmer.start_batches(now, EACH).remove(0);
    programmer.set_desired(MembershipTable::default(), owned());
    assert!(programmer.start_batches(now, EACH).is_empty(), "one thing after the other");
    programmer.finish_batch(&batch, &Ok(()), now);
    assert_eq!(programmer.start_batches(now, EACH)[0].changes[&key(5)].remove.len(), 1);
}

#[test]
fn an_old_list_does_not_undo_what_was_done_since() {
    let mut programmer = programmer(&[(5, 1)], &[]);
    let now = Instant::now();
    let mark = programmer.begin_list();
    let batch = programmer.start_batches(now, EACH).remove(0);
    programmer.finish_batch(&batch, &Ok(()), now);
    programmer.record_list(mark, MembershipTable::default(), false);
    assert_eq!(programmer.membership_state(key(5), Guid::new(1)), MembershipState::Programmed);
    // A list asked for afterwards counts: the manager has lost its memory.
    let mark = programmer.begin_list();
    programmer.record_list(mark, MembershipTable::default(), false);
    assert_eq!(programmer.membership_state(key(5), Guid::new(1)), MembershipState::Pending);
    assert_eq!(programmer.start_batches(now, EACH).len(), 1);
}

#[test]
fn case_59_what_happened_while_nobody_looked() {
    let now = Instant::now();
    let gone: Vec<_> = (1..=5).map(|guid| (5, guid)).collect();
    let mut programmer = programmer(&[(5, 11), (5, 12), (6, 13)], &gone);
    for batch in programmer.start_batches(now, EACH) {
        programmer.finish_batch(&batch, &Ok(()), now);
    }
    assert_eq!(programmer.observed().unwrap(), programmer.desired());
}

proptest! {
    /// Any order of wishes, answers, losses and lists ends, once the manager answers, in what is wanted.
    #[test]
    fn it_converges(steps in proptest::collection::vec((0_u8..6, 1_u16..4, 1_u64..8), 0..80)) {
        let mut programmer = PartitionReconciler::default();
        let mut wanted = MembershipTable::default();
        let mut real = MembershipTable::default();
        let mut now = Instant::now();
        let mut flying: Vec<PartitionBatch> = Vec::new();
        let do_it = |real: &mut MembershipTable, batch: &PartitionBatch| {
            for (key, change) in &batch.changes {
                change.add.iter().for_each(|(guid, membership)| real.set(*key, *guid, *membership));
                change.remove.iter().for_each(|guid| real.remove(*key, *guid));
            }
        };
        for (step, k, g) in steps {
            match step {
                0 => wanted.insert(key(k), Guid::new(g), Membership::Full),
                1 => wanted.remove(key(k), Guid::new(g)),
                2 => flying.extend(programmer.start_batches(now, EACH)),
                3 => for (position, batch) in flying.drain(..).enumerate() {
                    // Done and answered, done and not answered, not done.
                    match (position as u64 + g) % 3 {
                        0 => { do_it(&mut real, &batch); programmer.finish_batch(&batch, &Ok(()), now); }
                        1 => { do_it(&mut real, &batch); programmer.finish_batch(&batch, &away(), now); }
                        _ => programmer.finish_batch(&batch, &away(), now),
                    }
                },
                4 => { let mark = programmer.begin_list(); programmer.record_list(mark, real.clone(), false); }
                // It forgets everything.
                _ => { real = MembershipTable::default(); }
            }
            programmer.set_desired(wanted.clone(), owned());
        }
        for batch in flying.drain(..) {
            do_it(&mut real, &batch);
            programmer.finish_batch(&batch, &Ok(()), now);
        }
        let mark = programmer.begin_list();
        programmer.record_list(mark, real.clone(), false);
        for _ in 0..10 {
            now += Duration::from_secs(60);
            for batch in programmer.start_batches(now, EACH) {
                do_it(&mut real, &batch);
                programmer.finish_batch(&batch, &Ok(()), now);
            }
        }
        prop_assert_eq!(&real, &wanted);
        prop_assert_eq!(programmer.observed(), Some(&wanted));
    }
}

#[test]
fn one_that_is_wanted_again_while_it_is_being_removed_is_not_there_yet() {
    let mut programmer = programmer(&[], &[(5, 1)]);
    let now = Instant::now();
    let removal = programmer.start_batches(now, EACH);
    assert_eq!(removal.len(), 1);
    programmer.set_desired(table(&[(5, 1)]), owned());
    assert_eq!(programmer.membership_state(key(5), Guid::new(1)), MembershipState::Pending);
    programmer.finish_batch(&removal[0], &Ok(()), now);
    assert_eq!(programmer.membership_state(key(5), Guid::new(1)), MembershipState::Pending);
    let again = programmer.start_batches(now, EACH);
    programmer.finish_batch(&again[0], &Ok(()), now);
    assert_eq!(programmer.membership_state(key(5), Guid::new(1)), MembershipState::Programmed);
}
