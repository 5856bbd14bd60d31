//! Every host path that the product opens is mounted in the DaemonSet of the node daemon.
//!
//! A path is a string literal that starts with a directory of the host's root, or an argument of `Root::path` or
//! `Root::run`. `Root::state`, `Root::sys` and `Root::dev` use such literals themselves.

use super::sources::{Source, is_test_item};
use anyhow::{Context, Result, ensure};
use ferroband_lab::cache;
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The manifest, and what `cargo xtask generate` makes of it.
const MANIFESTS: [&str; 3] = [
    "crates/cli/src/manifests/daemonset.yaml",
    "deploy/ferroband.yaml",
    "deploy/charts/ferroband/templates/daemons/daemonset.yaml",
];

/// Directories of the host's root. A literal that starts with one of them is a path.
const TOP_DIRS: [&str; 18] = [
    "bin", "boot", "dev", "etc", "home", "host", "lib", "mnt", "opt", "proc", "root", "run", "sbin", "srv",
    "sys", "tmp", "usr", "var",
];

/// Directories of which the product opens only parts. Each part has a literal of its own.
const OPENED_IN_PARTS: [&str; 2] = ["/run", "/var/lib/kubelet"];

/// Paths that need no mount, each with the reason. An entry that no code uses is an error.
const NOT_MOUNTED: [(&str, &str); 8] = [
    ("/host", "exists only in a pod of Whereabouts"),
    ("/opt/ufm/opensm/sbin", "a program in the image"),
    ("/proc", "the container has its own procfs, with the files of this kernel"),
    ("/sbin", "a program in the image"),
    ("/usr", "a program in the image"),
    ("/var/lib/cni", "only the CNI program opens it, on the host"),
    (
        "/var/lib/kubelet/plugins_registry",
        "only `ferroband device-plugin` uses it; the node daemon calls the kubelet",
    ),
    ("/sys/kernel/random", "below /proc"),
];

pub fn check(sources: &[Source]) -> Result<()> {
    let used = host_paths(sources);
    let mut unused: BTreeSet<&str> = NOT_MOUNTED.iter().map(|(path, _)| *path).collect();
    let mut opened = Vec::new();
    let is_opened = |path: &Path| !OPENED_IN_PARTS.iter().any(|part| path == Path::new(part));
    for (path, file) in used.iter().filter(|(path, _)| is_opened(path)) {
        match NOT_MOUNTED.iter().find(|(prefix, _)| path.starts_with(prefix)) {
            Some((prefix, _)) => drop(unused.remove(prefix)),
            None => opened.push((path, file)),
        }
    }
    ensure!(unused.is_empty(), "NOT_MOUNTED has paths that no code uses: {unused:?}");
    for manifest in MANIFESTS {
        let text = fs::read_to_string(cache::checkout().join(manifest))
            .with_context(|| format!("cannot read {manifest}"))?;
        let mounts = mount_paths(&text);
        let missing: Vec<String> = opened
            .iter()
            .filter(|(path, _)| !mounts.iter().any(|mount| path.starts_with(mount)))
            .map(|(path, file)| format!("{} ({})", path.display(), file.display()))
            .collect();
        ensure!(missing.is_empty(), "{manifest} does not mount: {}", missing.join(", "));
    }
    Ok(())
}

/// The mount points of the node daemon. The manifests may be templates, which are no YAML.
fn mount_paths(manifest: &str) -> Vec<PathBuf> {
    let objects = manifest.split("---\n").filter(|object| object.contains("\nkind: DaemonSet\n"));
    let lines = objects.flat_map(str::lines).map(|line| line.trim().trim_start_matches("- "));
    let mounts = lines.filter_map(|line| line.strip_prefix("mountPath: "));
    mounts.map(|path| without_var_run(Path::new(path))).collect()
}

/// Every path of the host in the product, with a file that uses it.
fn host_paths(sources: &[Source]) -> BTreeMap<PathBuf, PathBuf> {
    let product: Vec<&Source> = sources.iter().filter(|source| source.is_product()).collect();
    let mut constants = BTreeMap::new();
    for source in &product {
        source.syntax.items.iter().for_each(|item| collect_constants(item, &mut constants));
    }
    let mut found = BTreeMap::new();
    for source in product {
        let mut paths = BTreeSet::new();
        source.syntax.items.iter().for_each(|item| collect_item(item, &constants, &mut paths));
        found.extend(paths.into_iter().map(|path| (path, source.path.clone())));
    }
    found
}

fn collect_constants(item: &syn::Item, constants: &mut BTreeMap<String, String>) {
    match item {
        syn::Item::Mod(module) => {
            let items = module.content.iter().flat_map(|(_, items)| items);
            items.for_each(|item| collect_constants(item, constants));
        }
        syn::Item::Const(constant) => {
            if let Ok(value) = syn::parse2::<syn::LitStr>(constant.expr.to_token_stream()) {
                constants.insert(constant.ident.to_string(), value.value());
            }
        }
        _ => {}
    }
}

fn collect_item(item: &syn::Item, constants: &BTreeMap<String, String>, paths: &mut BTreeSet<PathBuf>) {
    match item {
        item if is_test_item(item) => {}
        syn::Item::Mod(module) => {
            let items = module.content.iter().flat_map(|(_, items)| items);
            items.for_each(|item| collect_item(item, constants, paths));
        }
        other => collect(other.to_token_stream(), constants, paths),
    }
}

fn collect(tokens: TokenStream, constants: &BTreeMap<String, String>, paths: &mut BTreeSet<PathBuf>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (index, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => {
                let first = group.stream().into_iter().next();
                if matches!(&first, Some(TokenTree::Ident(name)) if name == "doc") {
                    continue;
                }
                let call = if index > 1 { root_call(&tokens[index - 2], &tokens[index - 1]) } else { None };
                if let (Some(base), Some(argument)) = (call, first) {
                    let constant = || constants.get(&argument.to_string()).cloned();
                    paths.extend(text(&argument).or_else(constant).and_then(|path| below(base, &path)));
                }
                collect(group.stream(), constants, paths);
            }
            TokenTree::Literal(_) => paths.extend(text(token).as_deref().and_then(host_path)),
            TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
    }
}

/// The directory below which the call `.path(…)` or `.run(…)` of a `Root` looks for its argument.
fn root_call(dot: &TokenTree, method: &TokenTree) -> Option<&'static str> {
    let TokenTree::Ident(method) = method else { return None };
    let is_call = matches!(dot, TokenTree::Punct(dot) if dot.as_char() == '.');
    match method.to_string().as_str() {
        "path" if is_call => Some("/"),
        "run" if is_call => Some("/run"),
        _ => None,
    }
}

fn text(token: &TokenTree) -> Option<String> {
    Some(syn::parse2::<syn::LitStr>(token.to_token_stream()).ok()?.value())
}

/// The path that a literal is, up to its first variable. Prose has blanks.
fn host_path(literal: &str) -> Option<PathBuf> {
    let first = literal.trim_start_matches('/').split('/').next()?;
    let is_path = literal.starts_with('/') || literal.contains('/');
    (is_path && TOP_DIRS.contains(&first)).then(|| below("/", literal)).flatten()
}

fn below(base: &str, path: &str) -> Option<PathBuf> {
    let fixed = path.split('{').next().unwrap_or_default();
    let is_path = !fixed.is_empty() && !fixed.contains(char::is_whitespace);
    is_path.then(|| without_var_run(&Path::new(base).join(fixed.trim_start_matches('/'))))
}

/// `/var/run` is a link to `/run`, on the host and in the image.
fn without_var_run(path: &Path) -> PathBuf {
    path.strip_prefix("/var/run").map_or_else(|_| path.to_owned(), |inside| Path::new("/run").join(inside))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths_in(code: &str) -> Vec<String> {
        let file = syn::parse_file(code).unwrap();
        let mut constants = BTreeMap::new();
        file.items.iter().for_each(|item| collect_constants(item, &mut constants));
        let mut paths = BTreeSet::new();
        file.items.iter().for_each(|item| collect_item(item, &constants, &mut paths));
        paths.into_iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn paths_are_found_in_calls_constants_formats_and_attributes() {
        let code = r#"
            /// A file in /etc/nothing.
            const LIST: [&str; 2] = ["etc/a/b", "no path"];
            const BELOW_RUN: &str = "x.io/dp";
            #[arg(default_value = "/opt/tool")]
            fn f(root: &Root) {
                root.path("strange/c"); root.run("d"); root.run(BELOW_RUN); root.path("var/run/e");
                format!("/srv/f/{name}"); bail!("look at /mnt/g please");
            }
            #[cfg(test)]
            mod tests { const NOT: &str = "/etc/not"; }
        "#;
        let expected = ["/etc/a/b", "/opt/tool", "/run/d", "/run/e", "/run/x.io/dp", "/srv/f/", "/strange/c"];
        assert_eq!(paths_in(code), expected);
    }

    #[test]
    fn mounts_of_the_daemonset_are_found_in_manifests_with_several_objects() {
        let text = "---\nkind: Deployment\n  mountPath: /a\n---\napiVersion: v1\nkind: DaemonSet\n  - mountPath: /b\n    \
                    mountPath: /var/run/c\n";
        assert_eq!(mount_paths(text), [Path::new("/b"), Path::new("/run/c")]);
    }
}
