//! The catalogues of cases in `docs/cases`: what must hold, and which test shows it.
//!
//! A test names its cases in a comment above it, `// Case: cni 17, ipam W31`. The last column of each catalogue lists
//! those tests: `cargo xtask generate` writes it, `cargo xtask test unit` compares. An entry that no test names says why.

use super::sources::Source;
use anyhow::{Context, Result, bail};
use ferroband_lab::cache;
use ferroband_lab::command::{command, output};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

const CATALOGUES: [&str; 4] = ["cni", "ipam", "operator", "partitions"];

/// What the last column of an entry without a test begins with.
const UNTESTED: &str = "No test: ";

/// The tests that name a case, by catalogue and number.
type TestsByCase = BTreeMap<(String, String), BTreeSet<String>>;

/// Fails if a test names a case that does not exist, a column is stale, or an entry has neither a test nor a reason.
pub fn check(_: &[Source]) -> Result<()> {
    let tests = tests_by_case()?;
    let mut problems = Vec::new();
    let mut known = BTreeSet::new();
    for catalogue in CATALOGUES {
        let text = read(catalogue)?;
        for line in text.lines() {
            let Some(entry) = Entry::parse(line) else { continue };
            let case = (catalogue.to_owned(), entry.number.to_owned());
            match tests.get(&case) {
                Some(names) if entry.shown_by != list(names) => {
                    problems.push(format!("{catalogue} {}: run `cargo xtask generate`", entry.number));
                }
                None if !entry.shown_by.starts_with(UNTESTED) => {
                    problems.push(format!("{catalogue} {} has no test and does not say why", entry.number));
                }
                _ => {}
            }
            known.insert(case);
        }
    }
    for ((catalogue, number), names) in tests.iter().filter(|(case, _)| !known.contains(*case)) {
        problems.push(format!("{} names the unknown case {catalogue} {number}", list(names)));
    }
    if problems.is_empty() { Ok(()) } else { bail!("{}", problems.join("\n")) }
}

/// Writes the last column of every entry that has a test.
pub fn write() -> Result<()> {
    let tests = tests_by_case()?;
    for catalogue in CATALOGUES {
        let mut text = String::new();
        for line in read(catalogue)?.lines() {
            let entry = Entry::parse(line);
            let names = entry.as_ref().and_then(|entry| tests.get(&(catalogue.into(), entry.number.into())));
            match (entry, names) {
                (Some(entry), Some(names)) => {
                    text.push_str(&format!("| {} | {} | {} |\n", entry.number, entry.must_hold, list(names)));
                }
                _ => text.push_str(&format!("{line}\n")),
            }
        }
        let path = path(catalogue);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn path(catalogue: &str) -> PathBuf {
    cache::checkout().join("docs/cases").join(catalogue).with_extension("md")
}

fn read(catalogue: &str) -> Result<String> {
    let path = path(catalogue);
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

fn list(names: &BTreeSet<String>) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// One row of a catalogue's table.
#[derive(Debug, PartialEq)]
struct Entry<'a> {
    number: &'a str,
    must_hold: &'a str,
    shown_by: &'a str,
}

impl<'a> Entry<'a> {
    /// Rows only: the number has a digit, which neither a heading nor the line below it has.
    fn parse(line: &'a str) -> Option<Self> {
        let (number, rest) = line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | ")?;
        let (must_hold, shown_by) = rest.rsplit_once(" | ")?;
        number.contains(|c: char| c.is_ascii_digit()).then_some(Self { number, must_hold, shown_by })
    }
}

fn tests_by_case() -> Result<TestsByCase> {
    let checkout = cache::checkout();
    let args =
        ["grep", "--untracked", "--name-only", "--extended-regexp", "(//|#) Case: ", "--", "crates", "tests"];
    let files = output(command("git", args).current_dir(&checkout))?;
    let mut tests = TestsByCase::new();
    for file in files.lines() {
        let text = fs::read_to_string(checkout.join(file)).with_context(|| format!("cannot read {file}"))?;
        collect(file, &text, &mut tests);
    }
    for entry in fs::read_dir(checkout.join("tests/conformance")).context("cannot read tests/conformance")? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        // `tests/conformance/017.json` plays case 17.
        if let Some(number) = name.strip_suffix(".json") {
            let case = ("cni".to_owned(), number.trim_start_matches('0').to_owned());
            tests.entry(case).or_default().insert(format!("tests/conformance/{name}"));
        }
    }
    Ok(tests)
}

/// Finds the comments of one file. In Rust the test is the next function; elsewhere it is the file.
fn collect(file: &str, text: &str, tests: &mut TestsByCase) {
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let comment = line.trim_start();
        let Some(cases) = ["// Case: ", "# Case: "].iter().find_map(|mark| comment.strip_prefix(mark)) else {
            continue;
        };
        let test =
            if file.ends_with(".rs") { lines.clone().find_map(function_name).unwrap_or(file) } else { file };
        for case in cases.split(',').map(str::trim) {
            let (catalogue, number) = case.split_once(' ').unwrap_or(("", case));
            tests.entry((catalogue.to_owned(), number.to_owned())).or_default().insert(test.to_owned());
        }
    }
}

fn function_name(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("fn ")?;
    rest.split_once('(').map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::{Entry, TestsByCase, collect, list};

    #[test]
    fn comments_name_the_next_function() {
        let mut tests = TestsByCase::new();
        let text =
            "// Case: cni 17, ipam W31\n#[test]\nfn add_fails() {\n    // Case: cni 18\n}\nfn other() {}\n";
        collect("a.rs", text, &mut tests);
        let case = |catalogue: &str, number: &str| list(&tests[&(catalogue.into(), number.into())]);
        assert_eq!(case("cni", "17"), "`add_fails`");
        assert_eq!(case("ipam", "W31"), "`add_fails`");
        assert_eq!(case("cni", "18"), "`other`");
    }

    #[test]
    fn rows_are_told_from_headings() {
        let entry = Entry::parse("| W31 | An address `a | b` is freed. | `test` |");
        assert_eq!(
            entry,
            Some(Entry { number: "W31", must_hold: "An address `a | b` is freed.", shown_by: "`test`" })
        );
        assert_eq!(Entry::parse("| Case | What must hold | Shown by |"), None);
        assert_eq!(Entry::parse("| --- | --- | --- |"), None);
    }
}
