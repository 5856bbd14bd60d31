use super::*;

#[test]
fn a_hundred_nodes_start_a_pod_with_eight_rails_at_once() {
    let result = run_scenario(&ModelScenario::rails(100, 1).unwrap()).unwrap();
    assert_eq!((result.addresses, result.duplicates, result.without_address), (800, 0, 0), "{result:?}");
    assert_eq!((result.refused, result.failed), (0, 0), "{result:?}");
    assert!(result.requests_per_address <= 1.3 && result.most_rounds <= 5, "{result:?}");
}

#[test]
fn nobody_is_refused_while_an_address_is_free() {
    let result = run_scenario(&ModelScenario::tight(100, 1).unwrap()).unwrap();
    assert_eq!((result.addresses, result.duplicates, result.without_address), (100, 0, 0), "{result:?}");
    assert_eq!((result.refused, result.failed), (0, 0), "{result:?}");
}

#[test]
fn a_run_with_the_same_seed_is_repeatable() {
    let run = |seed| ModelResult {
        seconds: 0.0,
        ..run_scenario(&ModelScenario::tight(20, seed).unwrap()).unwrap()
    };
    assert_eq!(run(7), run(7));
}
