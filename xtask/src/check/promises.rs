//! The promises of `docs/security.md`: each names a test that exists.

use super::sources::Source;
use anyhow::{Context, Result, bail};
use ferroband_lab::cache;
use std::collections::BTreeSet;
use std::fs;
use syn::visit::{self, Visit};

const PAGE: &str = "docs/security.md";
const HEADING: &str = "| Promise | Test |";

/// Fails if a promise names no test, or one that does not exist.
pub fn check(sources: &[Source]) -> Result<()> {
    let page =
        fs::read_to_string(cache::checkout().join(PAGE)).with_context(|| format!("cannot read {PAGE}"))?;
    let mut functions = FunctionNames::default();
    sources.iter().for_each(|source| functions.visit_file(&source.syntax));
    let problems = problems(&page, &functions.0);
    if problems.is_empty() { Ok(()) } else { bail!("{PAGE}:\n{}", problems.join("\n")) }
}

fn problems(page: &str, functions: &BTreeSet<String>) -> Vec<String> {
    let mut problems = Vec::new();
    let mut lines = page.lines();
    while lines.by_ref().any(|line| line == HEADING) {
        for row in
            lines.by_ref().take_while(|line| line.starts_with('|')).filter(|line| !line.starts_with("|--"))
        {
            let cells = row.strip_suffix(" |").and_then(|row| row.rsplit_once(" | "));
            let tests: Vec<&str> =
                cells.map_or(Vec::new(), |(_, tests)| tests.split('`').skip(1).step_by(2).collect());
            let tests = tests.into_iter().filter(|name| !name.contains(' '));
            let (known, unknown): (Vec<_>, Vec<_>) = tests.partition(|name| functions.contains(*name));
            problems.extend(unknown.iter().map(|name| format!("no test is called {name}")));
            if known.is_empty() && unknown.is_empty() {
                problems.push(format!("no test: {row}"));
            }
        }
    }
    problems
}

#[derive(Default)]
struct FunctionNames(BTreeSet<String>);

impl<'ast> Visit<'ast> for FunctionNames {
    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        self.0.insert(signature.ident.to_string());
    }

    /// Tests of proptest are functions inside of a macro.
    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let text = call.tokens.to_string();
        self.0.extend(text.split("fn ").skip(1).filter_map(|rest| Some(rest.split_once(' ')?.0.to_owned())));
        visit::visit_macro(self, call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promises_without_a_test_are_found() {
        let functions = BTreeSet::from(["holds".to_owned()]);
        let page = |row: &str| format!("x\n\n{HEADING}\n|---|---|\n{row}\n\n| a | `other` |\n");
        assert_eq!(problems(&page("| It holds. | `holds` (`ferroband doctor`) |"), &functions), [""; 0]);
        assert_eq!(
            problems(&page("| It `may`. | `absent`, `holds` |"), &functions),
            ["no test is called absent"]
        );
        assert_eq!(problems(&page("| It `may`. | none |"), &functions), ["no test: | It `may`. | none |"]);
    }

    #[test]
    fn functions_are_found_in_modules_and_macros() {
        let file = syn::parse_file(
            "mod a { fn b() {} impl C { fn d(&self) {} } } proptest! { #[test] fn e (x in 0..1) {} }",
        );
        let mut names = FunctionNames::default();
        names.visit_file(&file.unwrap());
        assert_eq!(names.0.into_iter().collect::<Vec<_>>(), ["b", "d", "e"]);
    }
}
