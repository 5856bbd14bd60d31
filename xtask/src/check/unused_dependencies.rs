//! Dependencies that a manifest declares and no source file of the package names.

use super::sources::Source;
use anyhow::{Context, Result, bail};
use ferroband_lab::cache;
use ferroband_lab::workspace;
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::BTreeSet;
use std::path::Path;

/// Packages that are needed although no source file names them, each with the reason.
const ALLOWED: &[(&str, &str)] = &[
    ("k8s-openapi", "kube does not compile unless a version of Kubernetes is selected"),
    ("prost", "the code that tonic generates names it"),
    ("tonic-prost", "the code that tonic generates names it"),
];

/// Fails if a declared dependency is used nowhere: in the workspace's table or in one package.
pub fn check(sources: &[Source]) -> Result<()> {
    let metadata = workspace::metadata()?;
    let mut unused = Vec::new();
    let mut declared = BTreeSet::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let manifest = package["manifest_path"].as_str().unwrap_or_default();
        let folder = Path::new(manifest).parent().unwrap_or(Path::new("/"));
        let folder = folder.strip_prefix(cache::checkout()).unwrap_or(folder);
        let named = identifiers(sources.iter().filter(|source| source.path.starts_with(folder)));
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let name = dependency["name"].as_str().unwrap_or_default();
            declared.insert(name.to_owned());
            let is_allowed = ALLOWED.iter().any(|(allowed, _)| *allowed == name);
            if !named.contains(&name.replace('-', "_")) && !is_allowed {
                unused.push(format!(
                    "{}: {name} is declared and unused",
                    package["name"].as_str().unwrap_or("?")
                ));
            }
        }
    }
    for name in workspace_table()? {
        if !declared.contains(&name) {
            unused.push(format!("Cargo.toml: no package of the workspace depends on {name}"));
        }
    }
    if unused.is_empty() { Ok(()) } else { bail!("{}", unused.join("\n")) }
}

/// The names in `[workspace.dependencies]`.
fn workspace_table() -> Result<Vec<String>> {
    let text =
        std::fs::read_to_string(cache::checkout().join("Cargo.toml")).context("cannot read Cargo.toml")?;
    let table = text.lines().skip_while(|line| *line != "[workspace.dependencies]").skip(1);
    let lines = table.take_while(|line| !line.starts_with('['));
    Ok(lines.filter_map(|line| Some(line.split_once(" = ")?.0.to_owned())).collect())
}

fn identifiers<'a>(sources: impl Iterator<Item = &'a Source>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    sources.for_each(|source| collect(source.syntax.to_token_stream(), &mut names));
    names
}

fn collect(tokens: TokenStream, names: &mut BTreeSet<String>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => collect(group.stream(), names),
            TokenTree::Ident(name) => {
                names.insert(name.to_string());
            }
            TokenTree::Literal(_) | TokenTree::Punct(_) => {}
        }
    }
}
