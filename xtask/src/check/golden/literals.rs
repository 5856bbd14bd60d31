//! String literals of the product that are names, not prose: labels, annotations, field managers, paths, markers, keys.

use super::super::sources::{Source, is_test_item};
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::BTreeSet;

/// Every such literal of the product, once, with the crate that contains it.
pub fn lines(sources: &[Source]) -> Vec<String> {
    let mut found = BTreeSet::new();
    for source in sources.iter().filter(|source| source.is_product()) {
        let krate = source.crate_name();
        let mut names = BTreeSet::new();
        source.syntax.items.iter().for_each(|item| collect_item(item, &mut names));
        found.extend(names.into_iter().map(|name| format!("{krate}: {name}")));
    }
    found.into_iter().collect()
}

fn collect_item(item: &syn::Item, names: &mut BTreeSet<String>) {
    match item {
        item if is_test_item(item) => {}
        syn::Item::Mod(module) => {
            module.content.iter().flat_map(|(_, items)| items).for_each(|item| collect_item(item, names));
        }
        other => collect(other.to_token_stream(), names),
    }
}

fn collect(tokens: TokenStream, names: &mut BTreeSet<String>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (index, token) in tokens.iter().enumerate() {
        match token {
            // Attributes carry documentation and messages; what serde makes of them is in the wire types.
            TokenTree::Group(_) if index > 0 && is_hash(&tokens[index - 1]) => {}
            TokenTree::Group(group) => {
                let is_folder = index > 0
                    && ["state", "run", "path"].iter().any(|name| is_ident(&tokens[index - 1], name));
                if is_folder {
                    names.extend(group.stream().into_iter().next().as_ref().and_then(text));
                }
                collect(group.stream(), names);
            }
            TokenTree::Literal(_) => {
                let is_key = tokens
                    .get(index + 1)
                    .is_some_and(|next| matches!(next, TokenTree::Punct(p) if p.as_char() == ':'));
                names.extend(text(token).filter(|text| is_key || is_name(text)));
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
    }
}

fn is_hash(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == '#' || punct.as_char() == '!')
}

fn is_ident(token: &TokenTree, name: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == name)
}

/// The value of a string literal. The names of variables in a format string are code names and are left out.
fn text(token: &TokenTree) -> Option<String> {
    let value = syn::parse2::<syn::LitStr>(token.to_token_stream()).ok()?.value();
    let mut parts = value.split('{');
    let first = parts.next().unwrap_or_default().to_owned();
    Some(parts.fold(first, |text, part| text + "{}" + part.split_once('}').map_or(part, |(_, rest)| rest)))
}

/// A domain, a path, a dashed, dotted or CamelCase word. Prose has blanks.
fn is_name(text: &str) -> bool {
    let is_word = text.len() > 2 && text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-{}".contains(c));
    let has_letters = text.chars().any(|c| c.is_ascii_lowercase());
    let is_joined = text.trim_end_matches(['.', '-', '_']).contains(['/', '.', '-', '_']);
    let is_camel = text.chars().skip(1).any(|c| c.is_ascii_uppercase());
    is_word && has_letters && (is_joined || is_camel)
}

#[cfg(test)]
mod tests {
    use super::is_name;

    #[test]
    fn names_are_told_from_prose() {
        for name in ["ferroband.io/network", "before-{}", ".json", "ferroband-cluster", "NoParent", "var/lib"]
        {
            assert!(is_name(name), "{name}");
        }
        for prose in ["", "none", "no parent", "{}:", "...", "GET"] {
            assert!(!is_name(prose), "{prose}");
        }
    }
}
