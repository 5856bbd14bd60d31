use super::*;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Writes the file at `now`, and lets another program remove it `life` later. Returns the time of the removal.
fn write_and_remove(removals: &mut RemovalCount, now: Instant, life: Duration) -> Instant {
    removals.record_present(now);
    removals.record_missing(now + life);
    now + life
}

#[test]
fn pauses_begin_with_the_fourth_removal_and_grow_to_the_limit() {
    let (mut removals, mut now) = (RemovalCount::default(), Instant::now());
    removals.record_missing(now);
    assert_eq!((removals.is_contested(), removals.pause(now)), (false, Duration::ZERO), "not written yet");
    let mut pauses = Vec::new();
    for _ in 0..10 {
        now = write_and_remove(&mut removals, now, seconds(0));
        removals.record_missing(now + seconds(1));
        pauses.push(removals.pause(now).as_secs());
        now += removals.pause(now);
        assert_eq!(removals.pause(now), Duration::ZERO, "the pause is over");
    }
    assert_eq!(pauses, [0, 0, 0, 30, 60, 120, 240, 480, 600, 600]);
}

#[test]
fn file_that_stays_is_no_longer_contested() {
    let (mut removals, mut now) = (RemovalCount::default(), Instant::now());
    for _ in 0..5 {
        now = write_and_remove(&mut removals, now, seconds(1));
    }
    removals.record_present(now);
    removals.record_present(now + seconds(299));
    assert!(removals.is_contested());
    removals.record_present(now + seconds(300));
    assert!(!removals.is_contested());
    now = write_and_remove(&mut removals, now, seconds(86_400));
    assert_eq!(removals.pause(now), Duration::ZERO, "a single removal is repaired at once");
}

#[test]
fn program_that_renamed_the_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(ConflistRemoval::find_renamed(dir.path()), None);
    assert!(ConflistRemoval::explain(dir.path()).cause.contains("another program removes"));
    fs::write(dir.path().join(CONFLIST), "").unwrap();
    assert_eq!(ConflistRemoval::find_renamed(dir.path()), None);
    fs::write(dir.path().join("00-ferroband.conflist.bak"), "").unwrap();
    let unknown = ConflistRemoval::find_renamed(dir.path()).unwrap();
    assert_eq!(unknown.cause, "another program renamed 00-ferroband.conflist to 00-ferroband.conflist.bak");
    fs::write(dir.path().join(RENAMED_BY_CILIUM), "").unwrap();
    assert!(ConflistRemoval::explain(dir.path()).remedy.contains("cni.exclusive=false"));
}
