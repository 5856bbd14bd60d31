use super::*;
use crate::Membership;
use proptest::prelude::*;

const PER_PARTITION: RateLimits =
    RateLimits { window: Duration::ZERO, interval: Duration::ZERO, max_in_flight: 4 };
const WHOLE_TABLE: RateLimits =
    RateLimits { window: Duration::ZERO, interval: Duration::ZERO, max_in_flight: 1 };

fn key(number: u16) -> RequestedPKey {
    RequestedPKey::new(number).unwrap()
}

fn table(members: &[(u16, u64)]) -> MembershipTable {
    members.iter().map(|(k, g)| (key(*k), Guid::new(*g), Membership::Full)).collect()
}

fn ownership() -> Ownership {
    Ownership { guids: (1..100).map(Guid::new).collect(), ..Ownership::default() }
}

fn report(members: MembershipTable) -> FabricReport {
    FabricReport { members, ..FabricReport::default() }
}

fn timed_out() -> Result<(), Error> {
    Err(Error::Timeout { manager: "m".into(), request: "r".into(), timeout: Duration::from_secs(1) })
}

fn reconciler(desired: &[(u16, u64)], observed: &[(u16, u64)]) -> PartitionReconciler {
    let mut reconciler = PartitionReconciler::default();
    reconciler.set_desired(table(desired), ownership());
    // One answer confirms no removal.
    for _ in 0..2 {
        let mark = reconciler.begin_list();
        reconciler.record_list(mark, &report(table(observed)));
    }
    reconciler
}

#[test]
fn nothing_is_sent_before_the_first_list() {
    let mut reconciler = PartitionReconciler::default();
    reconciler.set_desired(table(&[(5, 1)]), ownership());
    assert!(reconciler.start_batches(Instant::now(), PER_PARTITION).is_empty());
    assert_eq!(reconciler.membership_state(key(5), Guid::new(1)), MembershipState::Pending);
}

// Case: partitions 26
#[test]
fn members_of_a_partition_are_sent_in_one_batch() {
    let mut reconciler = reconciler(&[(5, 1), (5, 2), (6, 3)], &[]);
    let now = Instant::now();
    let batches = reconciler.start_batches(now, PER_PARTITION);
    assert_eq!(batches.len(), 2);
    assert_eq!(batches[0].changes[&key(5)].add.len(), 2);
    assert!(batches[0].changes[&key(5)].remove.is_empty());
    assert!(reconciler.start_batches(now, PER_PARTITION).is_empty(), "in flight");
    batches.iter().for_each(|batch| reconciler.finish_batch(batch, &Ok(()), now));
    assert_eq!(reconciler.membership_state(key(5), Guid::new(1)), MembershipState::Programmed);
    assert!(reconciler.start_batches(now, PER_PARTITION).is_empty(), "done");
}

#[test]
fn whole_table_manager_gets_one_batch() {
    let mut reconciler = reconciler(&[(5, 1), (6, 3)], &[(7, 9)]);
    let batches = reconciler.start_batches(Instant::now(), WHOLE_TABLE);
    assert_eq!(batches.len(), 1);
    assert_eq!(batches[0].changes.len(), 3);
}

#[test]
fn whole_table_manager_gets_a_batch_when_the_functions_change() {
    let mut reconciler = reconciler(&[(5, 1)], &[(5, 1)]);
    let now = Instant::now();
    assert!(reconciler.start_batches(now, WHOLE_TABLE).is_empty());
    let mut desired = table(&[(5, 1)]);
    desired.add_function(Guid::new(7));
    reconciler.set_desired(desired.clone(), ownership());
    assert!(reconciler.start_batches(now, PER_PARTITION).is_empty(), "UFM has no use for it");
    let batches = reconciler.start_batches(now, WHOLE_TABLE);
    assert_eq!((batches.len(), &*batches[0].desired), (1, &desired));
    assert!(reconciler.start_batches(now, WHOLE_TABLE).is_empty(), "once");
}

// Case: partitions 45
#[test]
fn failing_partition_does_not_block_others() {
    let mut reconciler = reconciler(&[(5, 1), (6, 3)], &[]);
    let now = Instant::now();
    let batches = reconciler.start_batches(now, PER_PARTITION);
    reconciler.finish_batch(&batches[0], &timed_out(), now);
    reconciler.finish_batch(&batches[1], &Ok(()), now);
    assert!(matches!(
        reconciler.membership_state(key(5), Guid::new(1)),
        MembershipState::Failing { attempts: 1, .. }
    ));
    assert_eq!(reconciler.membership_state(key(6), Guid::new(3)), MembershipState::Programmed);
    assert!(reconciler.start_batches(now, PER_PARTITION).is_empty());
    let wait = reconciler.next_retry(now).unwrap();
    let again = reconciler.start_batches(now + wait, PER_PARTITION);
    assert_eq!(again.len(), 1);
    // The retry must repeat the same request, without removing the members first.
    assert_eq!(again[0].changes, batches[0].changes);
}

// Case: partitions 47
#[test]
fn timed_out_request_may_have_been_applied() {
    let mut reconciler = reconciler(&[(5, 1)], &[]);
    let now = Instant::now();
    let batch = reconciler.start_batches(now, PER_PARTITION).remove(0);
    reconciler.finish_batch(&batch, &timed_out(), now);
    reconciler.set_desired(MembershipTable::default(), ownership());
    assert!(!reconciler.is_in_no_partition(Guid::new(1)), "not confirmed to be removed");
    let later = now + Duration::from_secs(60);
    let removal = reconciler.start_batches(later, PER_PARTITION).remove(0);
    assert_eq!(removal.changes[&key(5)].remove, BTreeSet::from([Guid::new(1)]));
    reconciler.finish_batch(&removal, &Ok(()), later);
    assert!(reconciler.is_in_no_partition(Guid::new(1)));
}

// Case: partitions 55
#[test]
fn member_deleted_during_the_add_is_removed_afterwards() {
    let mut reconciler = reconciler(&[(5, 1)], &[]);
    let now = Instant::now();
    let batch = reconciler.start_batches(now, PER_PARTITION).remove(0);
    reconciler.set_desired(MembershipTable::default(), ownership());
    assert!(reconciler.start_batches(now, PER_PARTITION).is_empty(), "one request per partition at a time");
    reconciler.finish_batch(&batch, &Ok(()), now);
    assert_eq!(reconciler.start_batches(now, PER_PARTITION)[0].changes[&key(5)].remove.len(), 1);
}

#[test]
fn old_list_does_not_override_newer_results() {
    let mut reconciler = reconciler(&[(5, 1)], &[]);
    let now = Instant::now();
    let mark = reconciler.begin_list();
    let batch = reconciler.start_batches(now, PER_PARTITION).remove(0);
    reconciler.finish_batch(&batch, &Ok(()), now);
    reconciler.record_list(mark, &report(MembershipTable::default()));
    assert_eq!(reconciler.membership_state(key(5), Guid::new(1)), MembershipState::Programmed);
    // Memberships that are read after the batch must be used. Here, the subnet manager has lost the member,
    // so the member must be sent again.
    let mark = reconciler.begin_list();
    reconciler.record_list(mark, &report(MembershipTable::default()));
    assert_eq!(reconciler.membership_state(key(5), Guid::new(1)), MembershipState::Pending);
    assert_eq!(reconciler.start_batches(now, PER_PARTITION).len(), 1);
}

#[test]
fn reset_abandons_batches_in_flight_and_sends_them_again_after_the_next_list() {
    let mut reconciler = reconciler(&[(5, 1)], &[]);
    let now = Instant::now();
    let abandoned = reconciler.start_batches(now, PER_PARTITION).remove(0);
    reconciler.reset();
    assert!(reconciler.start_batches(now, PER_PARTITION).is_empty(), "not before the next list");
    // The old manager answers late. Its answer says nothing about the new manager.
    reconciler.finish_batch(&abandoned, &Ok(()), now);
    assert_eq!(reconciler.observed(), None);
    let mark = reconciler.begin_list();
    reconciler.record_list(mark, &report(MembershipTable::default()));
    assert_eq!(reconciler.start_batches(now, PER_PARTITION), [abandoned]);
}

#[test]
fn partitions_that_cannot_be_read_do_not_stop_the_others() {
    let mut reconciler = PartitionReconciler::default();
    reconciler.set_desired(table(&[(5, 1), (6, 2)]), ownership());
    let partial = |members| FabricReport { unread: [key(6)].into(), ..report(members) };
    let (mark, now) = (reconciler.begin_list(), Instant::now());
    reconciler.record_list(mark, &partial(MembershipTable::default()));
    let batches = reconciler.start_batches(now, PER_PARTITION);
    assert_eq!(batches.iter().flat_map(|batch| batch.changes.keys()).collect::<Vec<_>>(), [&key(5)]);
    reconciler.finish_batch(&batches[0], &Ok(()), now);
    // Nothing is known about partition 6, so no GUID is confirmed to be absent from it.
    assert!(!reconciler.is_removed(key(6), Guid::new(9)) && !reconciler.is_in_no_partition(Guid::new(9)));
    let mark = reconciler.begin_list();
    reconciler.record_list(mark, &partial(table(&[(5, 1)])));
    assert!(!reconciler.is_removed(key(6), Guid::new(9)) && reconciler.is_removed(key(5), Guid::new(9)));
    // It is read once. From then on its known state is kept if it cannot be read.
    let mark = reconciler.begin_list();
    reconciler.record_list(mark, &report(table(&[(5, 1), (6, 2)])));
    let mark = reconciler.begin_list();
    reconciler.record_list(mark, &partial(table(&[(5, 1)])));
    assert_eq!(reconciler.membership_state(key(6), Guid::new(2)), MembershipState::Programmed);
    assert!(reconciler.is_in_no_partition(Guid::new(9)));
}

// Case: partitions 59
#[test]
fn changes_during_downtime_are_reconciled() {
    let now = Instant::now();
    let stale: Vec<_> = (1..=5).map(|guid| (5, guid)).collect();
    let mut reconciler = reconciler(&[(5, 11), (5, 12), (6, 13)], &stale);
    for batch in reconciler.start_batches(now, PER_PARTITION) {
        reconciler.finish_batch(&batch, &Ok(()), now);
    }
    assert_eq!(reconciler.observed().unwrap(), reconciler.desired());
}

proptest! {
    /// After any sequence of changes, responses, lost requests and reads, the memberships in the subnet
    /// manager must become the desired ones once it responds.
    #[test]
    fn any_sequence_converges(steps in proptest::collection::vec((0_u8..6, 1_u16..4, 1_u64..8), 0..80)) {
        let mut reconciler = PartitionReconciler::default();
        let mut desired = MembershipTable::default();
        let mut actual = MembershipTable::default();
        let mut now = Instant::now();
        let mut in_flight: Vec<PartitionBatch> = Vec::new();
        let apply = |actual: &mut MembershipTable, batch: &PartitionBatch| {
            for (key, change) in &batch.changes {
                change.add.iter().for_each(|(guid, membership)| actual.set(*key, *guid, *membership));
                change.remove.iter().for_each(|guid| actual.remove(*key, *guid));
            }
        };
        for (step, k, g) in steps {
            match step {
                0 => desired.insert(key(k), Guid::new(g), Membership::Full),
                1 => desired.remove(key(k), Guid::new(g)),
                2 => in_flight.extend(reconciler.start_batches(now, PER_PARTITION)),
                3 => for (position, batch) in in_flight.drain(..).enumerate() {
                    // The request is applied and answered, applied without an answer, or lost.
                    match (position as u64 + g) % 3 {
                        0 => { apply(&mut actual, &batch); reconciler.finish_batch(&batch, &Ok(()), now); }
                        1 => { apply(&mut actual, &batch); reconciler.finish_batch(&batch, &timed_out(), now); }
                        _ => reconciler.finish_batch(&batch, &timed_out(), now),
                    }
                },
                4 => { let mark = reconciler.begin_list(); reconciler.record_list(mark, &report(actual.clone())); }
                // The subnet manager loses all memberships.
                _ => { actual = MembershipTable::default(); }
            }
            reconciler.set_desired(desired.clone(), ownership());
        }
        for batch in in_flight.drain(..) {
            apply(&mut actual, &batch);
            reconciler.finish_batch(&batch, &Ok(()), now);
        }
        let mark = reconciler.begin_list();
        reconciler.record_list(mark, &report(actual.clone()));
        for _ in 0..10 {
            now += Duration::from_secs(60);
            for batch in reconciler.start_batches(now, PER_PARTITION) {
                apply(&mut actual, &batch);
                reconciler.finish_batch(&batch, &Ok(()), now);
            }
        }
        prop_assert_eq!(&actual, &desired);
        prop_assert_eq!(reconciler.observed(), Some(&desired));
    }
}

#[test]
fn member_desired_again_during_its_removal_is_pending() {
    let mut reconciler = reconciler(&[], &[(5, 1)]);
    let now = Instant::now();
    let removal = reconciler.start_batches(now, PER_PARTITION);
    assert_eq!(removal.len(), 1);
    reconciler.set_desired(table(&[(5, 1)]), ownership());
    assert_eq!(reconciler.membership_state(key(5), Guid::new(1)), MembershipState::Pending);
    reconciler.finish_batch(&removal[0], &Ok(()), now);
    assert_eq!(reconciler.membership_state(key(5), Guid::new(1)), MembershipState::Pending);
    let again = reconciler.start_batches(now, PER_PARTITION);
    reconciler.finish_batch(&again[0], &Ok(()), now);
    assert_eq!(reconciler.membership_state(key(5), Guid::new(1)), MembershipState::Programmed);
}

fn many(count: u64) -> MembershipTable {
    (1..=count).map(|guid| (key(5), Guid::new(guid), Membership::Full)).collect()
}

fn answer(reconciler: &mut PartitionReconciler, report: &FabricReport) -> Option<DoubtfulAnswer> {
    let mark = reconciler.begin_list();
    reconciler.record_list(mark, report)
}

fn with_members(count: u64) -> PartitionReconciler {
    let mut reconciler = PartitionReconciler::default();
    reconciler.set_desired(many(count), ownership());
    assert_eq!(answer(&mut reconciler, &report(many(count))), None);
    reconciler
}

#[test]
fn an_answer_that_drops_many_members_is_believed_when_it_is_seen_twice() {
    let mut reconciler = with_members(90);
    let few = report(many(60));
    let doubt = answer(&mut reconciler, &few).unwrap();
    assert_eq!(doubt, DoubtfulAnswer::MembersDropped { dropped: 30, known: 90 });
    assert_eq!(reconciler.observed().unwrap().len(), 90, "nothing is forgotten");
    assert!(!reconciler.is_removed(key(5), Guid::new(70)) && reconciler.pending_changes().is_empty());
    assert_eq!(answer(&mut reconciler, &few), None);
    assert_eq!(reconciler.pending_changes()[&key(5)].add.len(), 30);

    // An answer that is complete again ends the doubt.
    let mut reconciler = with_members(90);
    assert!(answer(&mut reconciler, &few).is_some());
    assert_eq!(answer(&mut reconciler, &report(many(90))), None);
    assert!(answer(&mut reconciler, &few).is_some());
    // The next answer drops other members, which were seen once.
    let others = (40..=90).map(|guid| (key(5), Guid::new(guid), Membership::Full)).collect();
    assert!(answer(&mut reconciler, &report(others)).is_some());
}

#[test]
fn one_answer_is_not_enough_to_forget_a_member() {
    let mut reconciler = with_members(5);
    assert!(!reconciler.is_in_no_partition(Guid::new(9)), "the first answer");
    answer(&mut reconciler, &report(many(5)));
    assert!(reconciler.is_in_no_partition(Guid::new(9)));
    reconciler.set_desired(MembershipTable::default(), Ownership::default());
    let without = report(many(4));
    assert_eq!(answer(&mut reconciler, &without), None);
    assert!(!reconciler.is_removed(key(5), Guid::new(5)) && !reconciler.is_in_no_partition(Guid::new(5)));
    answer(&mut reconciler, &without);
    assert!(reconciler.is_removed(key(5), Guid::new(5)) && reconciler.is_in_no_partition(Guid::new(5)));
}

#[test]
fn an_answer_that_drops_few_members_is_believed_at_once() {
    for (known, left) in [(90, 70), (24, 4), (99, 90)] {
        assert_eq!(answer(&mut with_members(known), &report(many(left))), None, "{known} to {left}");
    }
    let mut reconciler = with_members(21);
    assert!(answer(&mut reconciler, &report(MembershipTable::default())).is_some(), "all of 21");
}

#[test]
fn an_answer_without_the_default_partition_is_believed_when_it_is_seen_twice() {
    let lacking = |count| FabricReport { lacks_default_partition: true, ..report(many(count)) };
    let mut reconciler = with_members(5);
    assert_eq!(answer(&mut reconciler, &lacking(0)), Some(DoubtfulAnswer::NoDefaultPartition));
    assert_eq!(reconciler.observed().unwrap().len(), 5);
    assert_eq!(answer(&mut reconciler, &lacking(0)), None);
    assert!(reconciler.observed().unwrap().is_empty());
    assert_eq!(answer(&mut reconciler, &report(many(5))), None);
    assert!(answer(&mut reconciler, &lacking(5)).is_some(), "an answer in between");

    let mut first = PartitionReconciler::default();
    first.set_desired(many(5), ownership());
    assert!(answer(&mut first, &lacking(0)).is_some());
    assert!(first.observed().is_none() && first.start_batches(Instant::now(), PER_PARTITION).is_empty());
}
