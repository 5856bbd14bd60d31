//! Tests of the book and the README: links resolve and `cargo xtask` commands parse. `crates/cli` tests the commands of
//! `ferroband`.

mod markdown;

use crate::Xtask;
use clap::Parser;
use ferroband_lab::cache;
use std::fs;
use std::path::Path;

#[test]
fn links_resolve() {
    let root = cache::checkout();
    let mut broken = Vec::new();
    for (page, text) in markdown::pages(&root) {
        for link in links(&text) {
            let (file, anchor) =
                link.split_once('#').map_or((link.as_str(), None), |(file, anchor)| (file, Some(anchor)));
            let folder = page.parent().unwrap_or(&root);
            let target = if file.is_empty() { page.clone() } else { folder.join(file) };
            let found = target.exists() && anchor.is_none_or(|anchor| has_heading(&target, anchor));
            if !found {
                broken.push(format!("{}: {link}", page.strip_prefix(&root).unwrap_or(&page).display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn xtask_commands_parse() {
    let root = cache::checkout();
    let mut parsed_commands = 0;
    for (page, text) in markdown::pages(&root) {
        for words in markdown::commands(&text) {
            let Some(rest) = words.strip_prefix(&["cargo".to_owned(), "xtask".to_owned()]) else { continue };
            let parsed = Xtask::try_parse_from([&["cargo xtask".to_owned()], rest].concat());
            assert!(parsed.is_ok(), "{}: {}\n{}", page.display(), words.join(" "), parsed.unwrap_err());
            parsed_commands += 1;
        }
    }
    assert!(parsed_commands > 20, "only {parsed_commands} commands were found");
}

#[test]
fn example_files_exist() {
    let root = cache::checkout();
    for (page, text) in markdown::pages(&root) {
        for word in
            markdown::commands(&text).into_iter().flatten().filter(|word| word.starts_with("examples/"))
        {
            assert!(root.join(&word).exists(), "{}: {word}", page.display());
        }
    }
}

/// Targets of Markdown links, except web links.
fn links(text: &str) -> Vec<String> {
    let outside = outside_fences(text);
    let targets =
        outside.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(target, _)| target));
    targets.filter(|target| !target.contains("://")).map(str::to_owned).collect()
}

/// The text without code blocks and inline code, where brackets are not links.
fn outside_fences(text: &str) -> String {
    let mut inside = false;
    let mut text_outside = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if !inside {
            // Every other piece between backticks is code. Code without brackets is kept, since it may be a link's
            // text.
            for (position, piece) in line.split('`').enumerate() {
                if position % 2 == 0 || !piece.contains(['[', '(']) {
                    text_outside.push_str(piece);
                }
            }
            text_outside.push('\n');
        }
    }
    text_outside
}

/// Whether a page has the heading of an anchor: lower case, blanks as hyphens, punctuation removed.
fn has_heading(page: &Path, anchor: &str) -> bool {
    let text = fs::read_to_string(page).unwrap_or_default();
    let slug = |line: &str| -> String {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    text.lines().filter(|line| line.starts_with('#')).any(|line| slug(line) == anchor)
}

#[test]
fn links_and_commands_are_extracted() {
    let text = "a [b](c.md) `[x](y)`\n```sh\n$ cargo xtask demo   # the story\na | ferroband status \\\n  -o 'json x'; b && c\n```\n\
                ```text\n[n](o)\n```\n[w](https://x.example)\n";
    assert_eq!(links(text), ["c.md"]);
    let commands = markdown::commands(text);
    let words: Vec<_> = commands.iter().map(|words| words.join("+")).collect();
    assert_eq!(words, ["cargo+xtask+demo", "a", "ferroband+status+-o+json x", "b", "c"]);
}
