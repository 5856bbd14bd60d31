//! Checks that the `ferroband` commands shown in the book and the README are valid.

#[path = "../../../xtask/src/book/markdown.rs"]
mod markdown;

use crate::arguments::Arguments;
use clap::Parser;
use std::path::Path;

#[test]
fn documented_commands_are_valid() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut tried = 0;
    for (page, text) in markdown::pages(&root) {
        for words in markdown::commands(&text) {
            // `kubectl ferroband …` and `cargo xtask lab ferroband …` run the same program, so their
            // arguments are checked too.
            let Some(start) = words.iter().take(6).position(|word| word == "ferroband") else { continue };
            if start > 0 && !["kubectl", "cargo"].contains(&words[0].as_str()) {
                continue;
            }
            let parsed = Arguments::try_parse_from(&words[start..]);
            assert!(parsed.is_ok(), "{}: {}\n{}", page.display(), words.join(" "), parsed.unwrap_err());
            tried += 1;
        }
    }
    assert!(tried > 15, "only {tried} commands found");
}
