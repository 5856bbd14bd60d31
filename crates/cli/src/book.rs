//! The commands of `ferroband` that the book and the README show are ones that there are.

#[path = "../../../xtask/src/book/shown.rs"]
mod shown;

use crate::arguments::Arguments;
use clap::Parser;
use std::path::Path;

#[test]
fn commands_of_this_program_are_understood() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut tried = 0;
    for (page, text) in shown::pages(&root) {
        for words in shown::commands(&text) {
            // `kubectl ferroband …` and `cargo xtask lab ferroband …` are the same program.
            let Some(start) = words.iter().take(6).position(|word| word == "ferroband") else { continue };
            if start > 0 && !["kubectl", "cargo"].contains(&words[0].as_str()) {
                continue;
            }
            let parsed = Arguments::try_parse_from(&words[start..]);
            assert!(parsed.is_ok(), "{}: {}\n{}", page.display(), words.join(" "), parsed.unwrap_err());
            tried += 1;
        }
    }
    assert!(tried > 15, "only {tried} commands were found");
}
