//! Public items that nothing uses, or only tests. The compiler does not report them, because another workspace could.

use super::sources::{Source, is_test_attribute, is_test_item};
use anyhow::{Result, bail};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};

/// Public items that only tests use, each with the reason.
const FOR_TESTS: &[(&str, &str)] = &[
    ("answer_anything", "a fuzz target sends admission reviews"),
    ("by_distance", "the distance between GPUs and adapters is not shown to users yet"),
    ("decode_anything", "the fuzz targets decode what the kernel sends"),
    ("parse_anything", "a fuzz target sends answers of UFM"),
    ("publish_index", "the model of `bench scale` does what the leader does"),
    ("with_env", "opensm needs variables to use the simulated fabric"),
    ("with_list_timeout", "a test must not wait for a minute"),
];

/// Fails if the name of a public function, type or constant occurs nowhere but in its definition, in `use` items and in
/// tests. Items of the test bed are for tests.
///
/// The check compares names only. A dead item that shares its name with a live one is not found.
pub fn check(sources: &[Source]) -> Result<()> {
    let (mut uses, mut uses_in_production) = (BTreeMap::new(), BTreeMap::new());
    for source in sources {
        let is_production = !source.is_test() && !is_for_tests(source);
        for item in &source.syntax.items {
            count_item(item, &mut uses, true);
            if is_production {
                count_item(item, &mut uses_in_production, false);
            }
        }
    }
    let (mut dead, mut excepted) = (BTreeSet::new(), BTreeSet::new());
    for source in sources.iter().filter(|source| source.path.starts_with("crates") && !source.is_test()) {
        let mut public = PublicItems::default();
        source.visit_production(&mut public);
        let counted = if is_for_tests(source) { &uses } else { &uses_in_production };
        for name in public.names.iter().filter(|name| counted.get(*name).is_none_or(|count| *count < 2)) {
            match FOR_TESTS.iter().find(|(excepted, _)| excepted == name) {
                Some((name, _)) => excepted.insert(*name),
                None => dead.insert(format!("{}: {name} is public and unused", source.path.display())),
            };
        }
    }
    let stale = FOR_TESTS.iter().filter(|(name, _)| !excepted.contains(name));
    dead.extend(stale.map(|(name, _)| format!("{name} is listed as used by tests only, but is not")));
    if dead.is_empty() { Ok(()) } else { bail!("{}", dead.into_iter().collect::<Vec<_>>().join("\n")) }
}

/// Whether the whole folder is for tests and other development tasks.
fn is_for_tests(source: &Source) -> bool {
    ["crates/testbed", "fuzz", "xtask"].iter().any(|folder| source.path.starts_with(folder))
}

fn count_item(item: &syn::Item, uses: &mut BTreeMap<String, usize>, with_tests: bool) {
    match item {
        syn::Item::Use(_) => {}
        item if !with_tests && is_test_item(item) => {}
        syn::Item::Mod(module) => {
            for item in module.content.iter().flat_map(|(_, items)| items) {
                count_item(item, uses, with_tests);
            }
        }
        other => count_tokens(quote::ToTokens::to_token_stream(other), uses),
    }
}

fn count_tokens(tokens: TokenStream, uses: &mut BTreeMap<String, usize>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => count_tokens(group.stream(), uses),
            TokenTree::Ident(name) => *uses.entry(name.to_string()).or_default() += 1,
            // Serde and clap name functions in strings: `#[serde(with = "path::name")]`.
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                let path = text.trim_matches('"');
                let is_path = path.chars().all(|c| c.is_alphanumeric() || c == '_' || c == ':');
                if let Some(name) = path.rsplit("::").next().filter(|_| is_path) {
                    *uses.entry(name.to_owned()).or_default() += 1;
                }
            }
            TokenTree::Punct(_) => {}
        }
    }
}

#[derive(Default)]
struct PublicItems {
    names: BTreeSet<String>,
}

impl PublicItems {
    fn add(&mut self, visibility: &syn::Visibility, name: &syn::Ident) {
        if matches!(visibility, syn::Visibility::Public(_)) {
            self.names.insert(name.to_string());
        }
    }
}

impl<'ast> Visit<'ast> for PublicItems {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if is_test_item(item) {
            return;
        }
        match item {
            syn::Item::Const(item) => self.add(&item.vis, &item.ident),
            syn::Item::Enum(item) => self.add(&item.vis, &item.ident),
            syn::Item::Fn(item) => self.add(&item.vis, &item.sig.ident),
            syn::Item::Static(item) => self.add(&item.vis, &item.ident),
            // The derive makes a resource of the name without `Spec` and uses the struct itself.
            syn::Item::Struct(item) if derives_custom_resource(item) => {}
            syn::Item::Struct(item) => self.add(&item.vis, &item.ident),
            syn::Item::Trait(item) => self.add(&item.vis, &item.ident),
            syn::Item::Type(item) => self.add(&item.vis, &item.ident),
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !item.attrs.iter().any(is_test_attribute) {
            self.add(&item.vis, &item.sig.ident);
        }
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.add(&item.vis, &item.ident);
    }

    fn visit_block(&mut self, _: &'ast syn::Block) {}
}

fn derives_custom_resource(item: &syn::ItemStruct) -> bool {
    item.attrs.iter().any(|attribute| attribute.path().is_ident("kube"))
}
