//! The documents the product is made from: their YAML blocks, cut out as they are printed.
//!
//! The documents lie beside the checkout where the product is built, and nowhere else; elsewhere the manifests
//! of `examples/` with the same objects serve.

use std::fs;
use std::path::{Path, PathBuf};

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The YAML blocks of the document whose file name begins with `number`, or the files of `examples/FALLBACK`
/// in the order given.
pub fn manifests(number: &str, fallback: &str, files: &[&str]) -> Vec<String> {
    let seeds = checkout().join("../shared/seeds");
    let document = fs::read_dir(seeds)
        .into_iter()
        .flatten()
        .flatten()
        .find(|entry| entry.file_name().to_string_lossy().starts_with(&format!("{number}_")));
    if let Some(document) = document {
        let text = fs::read_to_string(document.path()).expect("the document is readable");
        return blocks(&text, "yaml");
    }
    let read = |file: &&str| {
        let path = checkout().join("examples").join(fallback).join(file);
        fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    };
    files.iter().map(read).collect()
}

/// The fenced blocks of one language.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Option<String> = None;
    for line in text.lines() {
        match (&mut open, line.trim()) {
            (None, fence) if fence == format!("```{language}") => open = Some(String::new()),
            (Some(_), "```") => found.extend(open.take()),
            (Some(block), _) => {
                block.push_str(line);
                block.push('\n');
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::blocks;

    #[test]
    fn only_blocks_of_the_language_are_cut_out() {
        let text = "a\n```yaml\nx: 1\n```\n```\nsh\n```\n```yaml\ny: 2\n```\n";
        assert_eq!(blocks(text, "yaml"), ["x: 1\n", "y: 2\n"]);
    }
}
