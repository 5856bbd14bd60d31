//! Tests that share one expensive fixture, each with its own name and result.
//!
//! libtest has no fixture that outlives a test and is still dropped. A test file with `harness = false` calls
//! [`run_tests`] from `main`. The output has libtest's format, so `cargo xtask test` counts it like any other.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

/// A test by name. It gets the fixture.
pub type FixtureTest<'a, F> = (&'a str, fn(&mut F));

/// Creates the fixture and runs each test whose name contains the filter of the command line, in order.
pub fn run_tests<F>(create: impl FnOnce() -> F, tests: &[FixtureTest<'_, F>]) -> ExitCode {
    // Arguments as libtest takes them: options start with `-`, the filter does not.
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let selected: Vec<_> = tests.iter().filter(|(name, _)| name.contains(&filter)).collect();
    let filtered = tests.len() - selected.len();
    let begun = Instant::now();
    println!("\nrunning {} tests", selected.len());
    let mut failed = 0;
    if !selected.is_empty() {
        let mut fixture = create();
        for (name, test) in &selected {
            // A test that panics leaves objects behind. The others delete or ignore them, and the fixture's drop removes all.
            let passed = catch_unwind(AssertUnwindSafe(|| test(&mut fixture))).is_ok();
            println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
            failed += usize::from(!passed);
        }
    }
    let (word, passed) = (if failed == 0 { "ok" } else { "FAILED" }, selected.len() - failed);
    println!(
        "\ntest result: {word}. {passed} passed; {failed} failed; 0 ignored; 0 measured; {filtered} filtered out; \
         finished in {:.2}s\n",
        begun.elapsed().as_secs_f32()
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(101) }
}
