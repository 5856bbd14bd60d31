//! The documents the product is made from: their manifests, cut out as they are printed.
//!
//! The documents lie beside the checkout where the product is built, and nowhere else; elsewhere the manifests
//! of `examples/` with the same objects serve.
//!
//! ```text
//! ```yaml … ```                       ──manifests──▶ the block
//! NAME=x                              ┐
//! cat <<EOF | kubectl apply -f -      ├──applied───▶ what kubectl would read: a shell fills the variables in
//! … EOF                               ┘
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The examples with what the commands of document 001 apply: policy, network and pods; the network and the pods of its
/// second half.
pub const RDMA_INFINIBAND_EXAMPLES: [&str; 5] = [
    "ib-sriov/policy.yaml",
    "ib-sriov/network.yaml",
    "ib-sriov/pods.yaml",
    "ipoib-default/network.yaml",
    "ipoib-default/pods.yaml",
];

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The YAML blocks of the document whose file name begins with `number`, or the files of `examples/FALLBACK`
/// in the order given.
pub fn document_yaml(number: &str, fallback: &str, files: &[&str]) -> Vec<String> {
    match read_document(number) {
        Some(text) => fenced_blocks(&text, "yaml"),
        None => files.iter().map(|file| read_example(&format!("{fallback}/{file}"))).collect(),
    }
}

/// What the commands `cat <<EOF …` of the document print when a shell runs them, in their order, or the `files` below
/// `examples/`, as many.
#[track_caller]
pub fn document_manifests(number: &str, files: &[&str]) -> Vec<String> {
    let Some(text) = read_document(number) else {
        return files.iter().map(|file| read_example(file)).collect();
    };
    let found: Vec<_> = heredoc_commands(&text).iter().map(|script| run_shell(script)).collect();
    assert_eq!(found.len(), files.len(), "commands in document {number}: {found:#?}");
    found
}

fn read_document(number: &str) -> Option<String> {
    let seeds = fs::read_dir(checkout().join("../shared/seeds")).ok()?;
    let mut files = seeds.flatten();
    let file = files.find(|entry| entry.file_name().to_string_lossy().starts_with(&format!("{number}_")))?;
    Some(fs::read_to_string(file.path()).expect("the document is readable"))
}

/// A file below `examples/`.
#[track_caller]
pub fn read_example(file: &str) -> String {
    let path = checkout().join("examples").join(file);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The fenced blocks of one language.
fn fenced_blocks(text: &str, language: &str) -> Vec<String> {
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

/// The commands that feed a here-document to something, each with the assignments right above it. Prompts and the
/// indentation of the block are taken off, as whoever types them in would do.
fn heredoc_commands(text: &str) -> Vec<String> {
    let typed = |line: &str| {
        let line = line.trim();
        line.strip_prefix("$ ").unwrap_or(line).to_owned()
    };
    let assigns = |line: &str| {
        let name = line.split('=').next().unwrap_or_default();
        line.contains('=') && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
    };
    let mut found = Vec::new();
    let mut above = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let said = typed(line);
        if said.starts_with("cat <<EOF") {
            let indent = line.len() - line.trim_start().len();
            let body = lines.by_ref().take_while(|line| line.trim() != "EOF");
            let body = body.map(|line| line.get(indent..).unwrap_or_default());
            // What is done with it is left to the test.
            let whole = above.drain(..).chain(["cat <<EOF".to_owned()]).chain(body.map(str::to_owned));
            found.push(whole.chain(["EOF".to_owned()]).collect::<Vec<_>>().join("\n"));
        } else if assigns(&said) {
            above.push(said);
        } else {
            above.clear();
        }
    }
    found
}

/// What a shell prints.
fn run_shell(script: &str) -> String {
    let end = Command::new("sh").args(["-euc", script]).env_clear().output().expect("a shell");
    assert!(end.status.success(), "{script}\n{}", String::from_utf8_lossy(&end.stderr));
    String::from_utf8(end.stdout).expect("text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_blocks_of_the_language_are_cut_out() {
        let text = "a\n```yaml\nx: 1\n```\n```\nsh\n```\n```yaml\ny: 2\n```\n";
        assert_eq!(fenced_blocks(text, "yaml"), ["x: 1\n", "y: 2\n"]);
    }

    #[test]
    fn commands_are_run_as_they_are_typed_in() {
        let text = "1. do\n\n    ```shell\n    $ A=b NAME=pool\n    $ cat <<EOF | kubectl apply -f -\n    name: \
                    ${NAME}\n      x: $A\n    EOF\n    ```\n\n        B=c\n        cat <<EOF > f\n        b: $B\n        EOF\n";
        let found: Vec<_> = heredoc_commands(text).iter().map(|script| run_shell(script)).collect();
        assert_eq!(found, ["name: pool\n  x: b\n", "b: c\n"]);
    }

    #[test]
    fn the_examples_say_what_the_documents_say() {
        for (number, files) in [
            ("001", RDMA_INFINIBAND_EXAMPLES.as_slice()),
            (
                "003",
                &[
                    "ai-cluster/policy.yaml",
                    "ai-cluster/network.yaml",
                    "ai-cluster/partition.yaml",
                    "ai-cluster/rdma-tools-values.yaml",
                ],
            ),
        ] {
            let said = document_manifests(number, files);
            for (said, file) in said.iter().zip(files) {
                let told = |text: &str| {
                    let meant = text.lines().filter(|line| !line.trim_start().starts_with('#'));
                    let meant = meant.filter(|line| !line.trim().is_empty() && line.trim() != "...");
                    meant.map(|line| line.trim_end().to_owned()).collect::<Vec<_>>()
                };
                let (said, shown) = (told(said), told(&read_example(file)));
                for line in &said {
                    assert!(shown.contains(line), "{file} lacks {line:?} of document {number}");
                }
            }
        }
    }
}
