//! Cycles between the top-level modules of a crate. A module is a folder or a file directly below `src`.

use super::sources::Source;
use anyhow::{Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;
use syn::UseTree;
use syn::visit::Visit;

/// Crates whose data flows through the modules in one direction.
const CRATES: [&str; 2] = ["node", "attach"];

/// Fails if top-level modules of a crate use each other, directly or through other modules.
pub fn check(sources: &[Source]) -> Result<()> {
    let mut problems = Vec::new();
    for name in CRATES {
        let folder = Path::new("crates").join(name).join("src");
        let files: Vec<_> = sources
            .iter()
            .filter(|source| !source.is_test())
            .filter_map(|source| Some((source.path.strip_prefix(&folder).ok()?, source)))
            .map(|(path, source)| (path, paths_in(|collector| source.visit_production(collector))))
            .collect();
        let cycles = find_cycles(&files).into_iter();
        problems.extend(cycles.map(|uses| format!("crates/{name}: module cycle\n{}", uses.join("\n"))));
    }
    if problems.is_empty() { Ok(()) } else { bail!("{}", problems.join("\n")) }
}

/// Returns the uses that form each cycle. `files` are the paths below `src` and the paths that each file names.
fn find_cycles(files: &[(&Path, Vec<Vec<String>>)]) -> Vec<Vec<String>> {
    let modules: BTreeSet<String> = files.iter().filter_map(|(path, _)| module_of(path)).collect();
    let roots = files.iter().filter(|(path, _)| module_of(path).is_none());
    // A name that the crate's root re-exports belongs to the module that it comes from.
    let exported: BTreeMap<String, String> = roots
        .flat_map(|(_, paths)| paths)
        .filter_map(|path| {
            let path = path.strip_prefix(&["crate".to_owned()][..]).unwrap_or(path);
            Some((path.last()?.clone(), path.first().filter(|first| modules.contains(*first))?.clone()))
        })
        .collect();
    let mut uses: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for (file, paths) in files {
        let Some(user) = module_of(file) else { continue };
        for path in paths.iter().filter(|path| path.len() > 1 && path[0] == "crate") {
            let used = modules.get(&path[1]).or_else(|| exported.get(&path[1]));
            if let Some(used) = used.filter(|used| **used != user) {
                let line = format!("  {user} → {used}: {} in {}", path.join("::"), file.display());
                uses.entry((user.clone(), used.clone())).or_default().insert(line);
            }
        }
    }
    let mut cycles = Vec::new();
    let mut left = modules;
    while let Some(module) = left.pop_first() {
        let reached = reach(&module, |(user, used)| (user, used), &uses);
        let reaching = reach(&module, |(user, used)| (used, user), &uses);
        let cycle: BTreeSet<_> = reached.intersection(&reaching).cloned().collect();
        left.retain(|module| !cycle.contains(module));
        let inside = uses.iter().filter(|((user, used), _)| cycle.contains(user) && cycle.contains(used));
        let lines: Vec<String> = inside.flat_map(|(_, lines)| lines).cloned().collect();
        if !lines.is_empty() {
            cycles.push(lines);
        }
    }
    cycles
}

type Uses = BTreeMap<(String, String), BTreeSet<String>>;

/// Returns `start` and every module that can be reached from it.
fn reach(
    start: &str,
    direction: fn(&(String, String)) -> (&String, &String),
    uses: &Uses,
) -> BTreeSet<String> {
    let mut reached = BTreeSet::from([start.to_owned()]);
    let mut open = vec![start.to_owned()];
    while let Some(module) = open.pop() {
        for (from, to) in uses.keys().map(direction) {
            if *from == module && reached.insert(to.clone()) {
                open.push(to.clone());
            }
        }
    }
    reached
}

/// Returns the top-level module of a file below `src`; `None` for the crate's root.
fn module_of(path: &Path) -> Option<String> {
    let first = Path::new(path.iter().next()?);
    if [OsStr::new("lib.rs"), OsStr::new("main.rs")].contains(&first.as_os_str()) {
        return None;
    }
    Some(first.with_extension("").to_string_lossy().into_owned())
}

/// Collects the full path of every name that is imported or mentioned.
#[derive(Default)]
struct PathCollector(Vec<Vec<String>>);

fn paths_in(visit: impl FnOnce(&mut PathCollector)) -> Vec<Vec<String>> {
    let mut collector = PathCollector::default();
    visit(&mut collector);
    collector.0
}

impl PathCollector {
    fn add_tree(&mut self, mut prefix: Vec<String>, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.add_tree(prefix, &path.tree);
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|item| self.add_tree(prefix.clone(), item));
            }
            UseTree::Name(name) if name.ident == "self" => self.0.push(prefix),
            UseTree::Name(name) => self.0.push([prefix, vec![name.ident.to_string()]].concat()),
            UseTree::Rename(name) => self.0.push([prefix, vec![name.ident.to_string()]].concat()),
            UseTree::Glob(_) => self.0.push([prefix, vec!["*".to_owned()]].concat()),
        }
    }
}

impl<'ast> Visit<'ast> for PathCollector {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.add_tree(Vec::new(), &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.0.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        syn::visit::visit_path(self, path);
    }

    // `pub(crate)` contains a path that uses nothing.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let parse = |text: &str| paths_in(|collector| collector.visit_file(&syn::parse_file(text).unwrap()));
        let files: Vec<_> = files.iter().map(|(path, text)| (Path::new(*path), parse(text))).collect();
        find_cycles(&files)
    }

    #[test]
    fn modules_that_use_each_other_are_reported_with_their_uses() {
        let found = cycles(&[
            ("a/mod.rs", "use crate::{Error, b::{self, B}};"),
            ("a/inner.rs", "use crate::a::A;"),
            ("b.rs", "fn f() { crate::c::call(); }"),
            ("c.rs", "use super::b; impl T for U { fn f(x: crate::a::A) {} }"),
            ("d.rs", "use crate::a;"),
            ("error.rs", "pub enum Error {}"),
        ]);
        let expected = [
            "  a → b: crate::b in a/mod.rs",
            "  a → b: crate::b::B in a/mod.rs",
            "  b → c: crate::c::call in b.rs",
            "  c → a: crate::a::A in c.rs",
        ];
        assert_eq!(found, [expected]);
    }

    #[test]
    fn names_of_the_crate_root_belong_to_their_module() {
        let root = ("lib.rs", "mod a; mod b; pub use a::A; pub use crate::b::{B, C};");
        assert!(cycles(&[root, ("a.rs", "use crate::B;"), ("b.rs", "")]).is_empty());
        let found = cycles(&[root, ("a.rs", "use crate::B;"), ("b.rs", "pub(crate) struct B(crate::A);")]);
        assert_eq!(found, [["  a → b: crate::B in a.rs", "  b → a: crate::A in b.rs"]]);
    }
}
