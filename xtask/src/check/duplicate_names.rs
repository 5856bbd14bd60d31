//! Type names that occur more than once in the workspace. A reader who finds `Port` must not have to ask which one.

use super::sources::Source;
use anyhow::{Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};

/// Names that several types may have, each with the reason.
const ALLOWED: &[(&str, &str)] =
    &[("Error", "the error type of its crate or module, always written with its path")];

/// Fails if two types share a name.
pub fn check(sources: &[Source]) -> Result<()> {
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in sources {
        let mut types = Types::default();
        types.visit_file(&source.syntax);
        for name in types.names {
            names.entry(name).or_default().push(source.path.display().to_string());
        }
    }
    let is_allowed = |name: &str| ALLOWED.iter().any(|(allowed, _)| *allowed == name);
    let duplicates: Vec<String> = names
        .iter()
        .filter(|(name, paths)| paths.len() > 1 && !is_allowed(name))
        .map(|(name, paths)| format!("type {name} is defined in {}", paths.join(", ")))
        .collect();
    let unused = ALLOWED.iter().filter(|(name, _)| names.get(*name).is_none_or(|paths| paths.len() < 2));
    let unused: Vec<String> =
        unused.map(|(name, _)| format!("{name} is allowed twice but is not defined twice")).collect();
    let problems = [duplicates, unused].concat();
    if problems.is_empty() { Ok(()) } else { bail!("{}", problems.join("\n")) }
}

/// The types that a file defines, at any depth. Types inside function bodies are local and do not count.
#[derive(Default)]
struct Types {
    names: BTreeSet<String>,
}

impl<'ast> Visit<'ast> for Types {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let name = match item {
            syn::Item::Enum(item) => Some(&item.ident),
            syn::Item::Struct(item) => Some(&item.ident),
            syn::Item::Trait(item) => Some(&item.ident),
            syn::Item::Type(item) => Some(&item.ident),
            syn::Item::Union(item) => Some(&item.ident),
            _ => None,
        };
        self.names.extend(name.map(ToString::to_string));
        visit::visit_item(self, item);
    }

    fn visit_block(&mut self, _: &'ast syn::Block) {}
}
