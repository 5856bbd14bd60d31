use super::*;
use std::time::Duration;

/// Duration of each test; `FERROBAND_FUZZ_SECONDS` overrides the default. `cargo xtask test soak` sets it.
fn duration() -> Duration {
    let seconds = std::env::var("FERROBAND_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(2))
}

#[track_caller]
fn fuzz(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target of that name");
    let inputs = mutation::run(&target.corpus(), duration(), target.run);
    assert!(inputs > 100, "only {inputs} inputs: the target is too slow to find anything");
}

#[test]
fn mutated_configurations_do_not_panic() {
    fuzz("stdin");
}

#[test]
fn mutated_annotations_do_not_panic() {
    fuzz("annotation");
}

#[test]
fn mutated_socket_messages_do_not_panic() {
    fuzz("socket");
}

#[test]
fn mutated_journals_do_not_panic() {
    fuzz("journal");
}

#[test]
fn mutated_netlink_messages_do_not_panic() {
    fuzz("netlink");
}

#[test]
fn mutated_network_definitions_are_planned_or_refused() {
    fuzz("plan");
}

#[test]
fn mutated_admission_reviews_are_answered() {
    fuzz("admission");
}

#[test]
fn mutated_network_objects_are_rendered_or_refused() {
    fuzz("definition");
}

#[test]
fn mutated_answers_of_ufm_do_not_panic() {
    fuzz("ufm");
}

#[test]
fn mutated_partitions_files_are_never_made_unsafe() {
    fuzz("partitions");
}

#[test]
fn every_target_has_a_program_and_seeds_that_pass() {
    let programs = include_str!("../../../fuzz/Cargo.toml");
    for target in TARGETS {
        assert!(programs.contains(&format!("name = \"{}\"", target.name)), "{}", target.name);
        let seeds = (target.seeds)();
        assert!(!seeds.is_empty());
        seeds.iter().for_each(|seed| (target.run)(seed));
    }
}
