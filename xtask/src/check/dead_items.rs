//! Public items that nothing uses. The compiler does not report them, because another workspace could.

use super::sources::Source;
use anyhow::{Result, bail};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};

/// Fails if the name of a public function, type or constant occurs nowhere but in its definition and in `use` items.
///
/// The check compares names only. A dead item that shares its name with a live one is not found.
pub fn check(sources: &[Source]) -> Result<()> {
    let mut uses: BTreeMap<String, usize> = BTreeMap::new();
    for source in sources {
        for item in &source.syntax.items {
            count_item(item, &mut uses);
        }
    }
    let mut dead = BTreeSet::new();
    for source in sources.iter().filter(|source| source.path.starts_with("crates") && !source.is_test()) {
        let mut public = PublicItems::default();
        source.visit_production(&mut public);
        let unused = public.names.iter().filter(|name| uses.get(*name).is_none_or(|count| *count < 2));
        dead.extend(unused.map(|name| format!("{}: {name} is public and unused", source.path.display())));
    }
    if dead.is_empty() { Ok(()) } else { bail!("{}", dead.into_iter().collect::<Vec<_>>().join("\n")) }
}

fn count_item(item: &syn::Item, uses: &mut BTreeMap<String, usize>) {
    match item {
        syn::Item::Use(_) => {}
        syn::Item::Mod(module) => {
            for item in module.content.iter().flat_map(|(_, items)| items) {
                count_item(item, uses);
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
        if !super::sources::is_test_item(item) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(&item.vis, &item.sig.ident);
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.add(&item.vis, &item.ident);
    }

    fn visit_block(&mut self, _: &'ast syn::Block) {}
}

fn derives_custom_resource(item: &syn::ItemStruct) -> bool {
    item.attrs.iter().any(|attribute| attribute.path().is_ident("kube"))
}
