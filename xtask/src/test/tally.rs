//! Test counts across tools with different output formats.

use anyhow::Result;
use std::time::Instant;

/// Counts of a run and the reasons of its failures.
#[derive(Default, Debug)]
pub struct Tally {
    passed: usize,
    failed: usize,
    skipped: usize,
    reasons: Vec<String>,
}

impl Tally {
    /// Runs a tier. A tier that cannot run counts as a failure.
    pub fn run_tier(&mut self, name: &str, work: impl FnOnce(&mut Self) -> Result<()>) {
        eprintln!("── {name}");
        let (begin, before) = (Instant::now(), (self.passed, self.failed));
        if let Err(error) = work(self) {
            self.fail(format!("tier {name}: {error:#}"));
        }
        let (passed, failed) = (self.passed - before.0, self.failed - before.1);
        eprintln!("── {name}: {passed} passed, {failed} failed ({:.0} s)", begin.elapsed().as_secs_f32());
    }

    /// Runs one check and prints its result.
    pub fn check(&mut self, name: &str, work: impl FnOnce() -> Result<()>) {
        let begin = Instant::now();
        match work() {
            Ok(()) => {
                self.passed += 1;
                eprintln!("  ✓ {name} ({:.1} s)", begin.elapsed().as_secs_f32());
            }
            Err(error) => {
                eprintln!("  ✗ {name}");
                self.fail(format!("{name}: {error:#}"));
            }
        }
    }

    /// Counts a result that has been printed already.
    pub fn record(&mut self, name: &str, passed: bool, reason: &str) {
        if passed {
            self.passed += 1;
        } else {
            self.failed += 1;
            self.reasons.push(format!("{name}: {reason}"));
        }
    }

    /// Counts a failure; the reason is printed now and in the summary.
    pub fn fail(&mut self, reason: String) {
        eprintln!("{reason}");
        self.failed += 1;
        self.reasons.push(reason);
    }

    /// Adds the counts of a libtest run, from the lines `test result: …` and `test NAME ... FAILED`; false if there are
    /// none.
    pub fn add_libtest_output(&mut self, output: &str) -> bool {
        let mut found = false;
        for line in output.lines() {
            if let Some(rest) = line.strip_prefix("test result: ") {
                found = true;
                self.passed += count(rest, "passed");
                self.failed += count(rest, "failed");
                self.skipped += count(rest, "ignored");
            } else if line.starts_with("test ") && line.ends_with("FAILED") {
                self.reasons.push(line.to_string());
            }
        }
        found
    }

    /// Adds the counts of a summary line `N passed, N failed, N skipped`; false if there is none.
    pub fn add_summary_line(&mut self, output: &str) -> bool {
        let Some(line) = output.lines().rev().find(|l| l.contains(" passed, ") && l.contains(" failed"))
        else {
            return false;
        };
        self.passed += count(line, "passed");
        self.failed += count(line, "failed");
        self.skipped += count(line, "skipped");
        if count(line, "failed") > 0 {
            self.reasons.push(line.to_string());
        }
        true
    }

    /// Prints the failures and the summary line; returns the exit code.
    pub fn finish(&self) -> i32 {
        for reason in &self.reasons {
            let first: String = reason.lines().take(3).collect::<Vec<_>>().join(" | ");
            eprintln!("  ✗ {first}");
        }
        println!("{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped);
        i32::from(self.failed > 0 || self.passed == 0)
    }
}

fn count(line: &str, word: &str) -> usize {
    let before = line.split(word).next().unwrap_or_default();
    before.trim_end().rsplit([' ', ';']).next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libtest_lines_are_counted() {
        let mut tally = Tally::default();
        let text = "test a ... ok\ntest b ... FAILED\n\
                    test result: FAILED. 12 passed; 1 failed; 3 ignored; 0 measured; 0 filtered out; finished in 0.1s\n";
        assert!(tally.add_libtest_output(text));
        assert_eq!((tally.passed, tally.failed, tally.skipped), (12, 1, 3));
        assert_eq!(tally.finish(), 1);
    }

    #[test]
    fn summary_line_is_counted() {
        let mut tally = Tally::default();
        assert!(tally.add_summary_line("case 1: passed\n25 passed, 0 failed, 2 skipped\n"));
        assert_eq!((tally.passed, tally.failed, tally.skipped), (25, 0, 2));
        assert!(!tally.add_summary_line("nothing of the kind\n"));
    }

    #[test]
    fn a_run_without_tests_fails() {
        assert_eq!(Tally::default().finish(), 1);
    }
}
