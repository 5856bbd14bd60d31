// Commands in the book's pages. Also included by the tests of crates/cli, by its path.

use std::fs;
use std::path::{Path, PathBuf};

/// All Markdown pages of the repository's documentation.
pub fn pages(root: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut open = ["docs", "lab", "examples"].map(|folder| root.join(folder)).to_vec();
    for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"] {
        found.push(root.join(name));
    }
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found.into_iter().map(|path| (path.clone(), fs::read_to_string(&path).unwrap_or_default())).collect()
}

/// The commands in `sh` code blocks, split into words.
pub fn commands(text: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut lines = text.lines().map(str::trim);
    while let Some(line) = lines.next() {
        if line != "```sh" {
            continue;
        }
        let block: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
        let joined = block.join("\n").replace("\\\n", " ");
        found.extend(joined.lines().flat_map(|line| split(line.trim_start_matches("$ "))));
    }
    found
}

/// Splits a line at pipes and list operators into commands; handles quotes, drops comments.
fn split(line: &str) -> Vec<Vec<String>> {
    let (mut all, mut words, mut word) = (Vec::new(), Vec::new(), None::<String>);
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, '|' | ';' | '&') => {
                words.extend(word.take());
                all.push(std::mem::take(&mut words));
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    all.push(words);
    all.retain(|words: &Vec<String>| !words.is_empty());
    all
}
