//! Every Rust file of the workspace, parsed once for the checks that read the code.

use anyhow::{Context, Result};
use ferroband_lab::cache;
use ferroband_lab::command::{command, output};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use syn::visit::Visit;

/// A Rust file that git tracks, or would track.
pub struct Source {
    /// Relative to the checkout.
    pub path: PathBuf,
    pub syntax: syn::File,
    /// A parent declares it as `#[cfg(test)] mod name;`.
    declared_for_tests: bool,
}

impl Source {
    /// Whether the whole file is built for tests only.
    pub fn is_test(&self) -> bool {
        let test = |part: &std::ffi::OsStr| part == "tests" || part == "tests.rs" || part == "examples";
        self.declared_for_tests || self.path.components().any(|part| test(part.as_os_str()))
    }

    /// Name of the folder below `crates/`, for a file of the product.
    pub fn crate_name(&self) -> String {
        self.path.iter().nth(1).unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Whether it is part of the product.
    pub fn is_product(&self) -> bool {
        self.path.starts_with("crates") && !self.path.starts_with("crates/testbed") && !self.is_test()
    }

    /// Visits the file without its test modules and test functions.
    pub fn visit_production<'ast, V: Visit<'ast>>(&'ast self, visitor: &mut V) {
        self.syntax.items.iter().filter(|item| !is_test_item(item)).for_each(|item| visitor.visit_item(item));
    }
}

/// Parses all files below the folders that hold Rust code.
pub fn parse_all() -> Result<Vec<Source>> {
    let checkout = cache::checkout();
    let args = ["ls-files", "--cached", "--others", "--exclude-standard", "*.rs"];
    let listed = output(command("git", args).current_dir(&checkout))?;
    let mut sources = Vec::new();
    // A file that was just deleted or moved is still listed.
    for path in listed.lines().map(PathBuf::from).filter(|path| checkout.join(path).is_file()) {
        let text = fs::read_to_string(checkout.join(&path))
            .with_context(|| format!("cannot read {}", path.display()))?;
        let mut syntax =
            syn::parse_file(&text).with_context(|| format!("cannot parse {}", path.display()))?;
        expand_named_enums(&mut syntax);
        sources.push(Source { path, syntax, declared_for_tests: false });
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    let test_files: BTreeSet<PathBuf> = sources.iter().flat_map(test_modules).collect();
    for source in &mut sources {
        source.declared_for_tests = test_files.contains(&source.path);
    }
    Ok(sources)
}

/// Replaces every `named_enum! { … }` by the enum in it, so that the checks see that enum.
fn expand_named_enums(file: &mut syn::File) {
    for item in &mut file.items {
        if let syn::Item::Macro(call) = item
            && call.mac.path.segments.last().is_some_and(|segment| segment.ident == "named_enum")
            && let Ok(named) = call.mac.parse_body::<syn::ItemEnum>()
        {
            *item = syn::Item::Enum(named);
        }
    }
}

/// The files of modules that a file declares for tests only.
fn test_modules(source: &Source) -> Vec<PathBuf> {
    let stem = source.path.file_stem().unwrap_or_default();
    let folder = match stem.to_string_lossy().as_ref() {
        "lib" | "main" | "mod" => source.path.with_file_name(""),
        _ => source.path.with_extension(""),
    };
    let modules =
        source.syntax.items.iter().filter(|item| is_test_item(item)).filter_map(|item| match item {
            syn::Item::Mod(module) if module.content.is_none() => Some(module.ident.to_string()),
            _ => None,
        });
    modules.map(|name| folder.join(name).with_extension("rs")).collect()
}

/// Whether an item carries `#[cfg(test)]` or is a test.
pub fn is_test_item(item: &syn::Item) -> bool {
    attributes(item).iter().any(is_test_attribute)
}

/// Whether an attribute is `#[cfg(test)]` or makes a test.
pub fn is_test_attribute(attribute: &syn::Attribute) -> bool {
    let path = attribute.path();
    if path.segments.last().is_some_and(|segment| segment.ident == "test") {
        return true;
    }
    let syn::Meta::List(list) = &attribute.meta else { return false };
    path.is_ident("cfg") && list.tokens.clone().into_iter().any(|token| token.to_string() == "test")
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Union(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
