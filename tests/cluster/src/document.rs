//! Manifests of the upstream documents that Ferroband implements, extracted as printed.
//!
//! The documents are beside the checkout on the build machine only; elsewhere the manifests in `examples/` with the
//! same objects are used.
//!
//! ```text
//! ```yaml … ```                       ──document_yaml──▶ the block
//! NAME=x                              ┐
//! cat <<EOF | kubectl apply -f -      ├──document_manifests──▶ kubectl's input, with the variables expanded by a shell
//! … EOF                               ┘
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Examples with the objects of document 001: policy, network and pods for SR-IOV; network and pods for IPoIB.
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

/// The YAML blocks of the document whose file name starts with `number`; without documents the files of
/// `examples/FALLBACK` in the given order.
pub fn document_yaml(number: &str, fallback: &str, files: &[&str]) -> Vec<String> {
    match read_document(number) {
        Some(text) => fenced_blocks(&text, "yaml"),
        None => files.iter().map(|file| read_example(&format!("{fallback}/{file}"))).collect(),
    }
}

/// The output of the document's `cat <<EOF …` commands, in order; without documents the same number of `files` below
/// `examples/`.
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

/// Reads a file below `examples/`.
#[track_caller]
pub fn read_example(file: &str) -> String {
    let path = checkout().join("examples").join(file);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The fenced code blocks of one language.
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

/// The commands with a here-document, each with the variable assignments directly above it. Prompts and indentation are
/// removed, as a user who types the command would do.
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
        let command = typed(line);
        if command.starts_with("cat <<EOF") {
            let indent = line.len() - line.trim_start().len();
            let body = lines.by_ref().take_while(|line| line.trim() != "EOF");
            let body = body.map(|line| line.get(indent..).unwrap_or_default());
            // The test decides what to do with the output.
            let whole = above.drain(..).chain(["cat <<EOF".to_owned()]).chain(body.map(str::to_owned));
            found.push(whole.chain(["EOF".to_owned()]).collect::<Vec<_>>().join("\n"));
        } else if assigns(&command) {
            above.push(command);
        } else {
            above.clear();
        }
    }
    found
}

/// Runs a script and returns its output.
fn run_shell(script: &str) -> String {
    let end = Command::new("sh").args(["-euc", script]).env_clear().output().expect("a shell");
    assert!(end.status.success(), "{script}\n{}", String::from_utf8_lossy(&end.stderr));
    String::from_utf8(end.stdout).expect("text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_blocks_of_the_language_are_extracted() {
        let text = "a\n```yaml\nx: 1\n```\n```\nsh\n```\n```yaml\ny: 2\n```\n";
        assert_eq!(fenced_blocks(text, "yaml"), ["x: 1\n", "y: 2\n"]);
    }

    #[test]
    fn commands_are_run_as_a_user_would_type_them() {
        let text = "1. do\n\n    ```shell\n    $ A=b NAME=pool\n    $ cat <<EOF | kubectl apply -f -\n    name: \
                    ${NAME}\n      x: $A\n    EOF\n    ```\n\n        B=c\n        cat <<EOF > f\n        b: $B\n        EOF\n";
        let found: Vec<_> = heredoc_commands(text).iter().map(|script| run_shell(script)).collect();
        assert_eq!(found, ["name: pool\n  x: b\n", "b: c\n"]);
    }

    #[test]
    fn examples_contain_every_line_of_the_documents() {
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
            let manifests = document_manifests(number, files);
            for (manifest, file) in manifests.iter().zip(files) {
                let content_lines = |text: &str| {
                    let meant = text.lines().filter(|line| !line.trim_start().starts_with('#'));
                    let meant = meant.filter(|line| !line.trim().is_empty() && line.trim() != "...");
                    meant.map(|line| line.trim_end().to_owned()).collect::<Vec<_>>()
                };
                let (printed, shown) = (content_lines(manifest), content_lines(&read_example(file)));
                for line in &printed {
                    assert!(shown.contains(line), "{file} lacks {line:?} of document {number}");
                }
            }
        }
    }
}
