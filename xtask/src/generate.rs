//! Files that are generated and committed: definitions, manifests, completions, manual pages.

use crate::cache;
use crate::command::{command, output, run};
use crate::progress::step;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Write them all anew.
pub fn generate() -> Result<()> {
    let deploy = cache::checkout().join("deploy");
    step("generated files in deploy/", |_| {
        for folder in GENERATED {
            let _ = fs::remove_dir_all(deploy.join(folder));
        }
        into(&deploy)
    })
}

/// Folders of deploy/ that hold nothing but generated files.
const GENERATED: [&str; 4] = ["crds", "completions", "man", "charts/ferroband/templates/daemons"];

/// Whether the committed files are what the sources give.
pub fn check() -> Result<()> {
    let fresh = cache::folder("generated")?.join(std::process::id().to_string());
    let result = into(&fresh).and_then(|()| {
        let (wanted, found) = (files(&fresh)?, files(&cache::checkout().join("deploy"))?);
        let mut stale: Vec<String> = wanted
            .iter()
            .filter(|(name, text)| found.get(*name) != Some(text))
            .map(|(name, _)| name.display().to_string())
            .collect();
        stale.extend(
            found
                .keys()
                .filter(|name| GENERATED.iter().any(|g| name.starts_with(g)) && !wanted.contains_key(*name))
                .map(|name| format!("{} (no longer generated)", name.display())),
        );
        if stale.is_empty() {
            Ok(())
        } else {
            bail!("run `cargo xtask generate`: stale in deploy/: {}", stale.join(", "))
        }
    });
    let _ = fs::remove_dir_all(&fresh);
    result
}

/// All generated files, made in a folder by the product itself.
fn into(folder: &Path) -> Result<()> {
    for below in GENERATED {
        fs::create_dir_all(folder.join(below)).with_context(|| format!("cannot create {below}"))?;
    }
    let ferroband = |args: &[&str]| {
        let mut cargo = command("cargo", ["run", "--quiet", "--package", "ferroband-cli", "--"]);
        cargo.args(args).current_dir(cache::checkout());
        cargo
    };
    run(ferroband(&["crds", "print", "--dir"]).arg(folder.join("crds")))?;
    run(ferroband(&["man", "--dir"]).arg(folder.join("man")))?;
    run(ferroband(&["manifests", "--chart"]).arg(folder.join(GENERATED[3])))?;
    let keep = |name: &str, args: &[&str]| -> Result<()> {
        let text = output(&mut ferroband(args))?;
        fs::write(folder.join(name), text).with_context(|| format!("cannot write {name}"))
    };
    keep("ferroband.yaml", &["manifests"])?;
    for (shell, name) in [("bash", "ferroband.bash"), ("zsh", "_ferroband"), ("fish", "ferroband.fish")] {
        keep(&format!("completions/{name}"), &["completions", shell])?;
    }
    Ok(())
}

/// Every file below a folder with its text, by relative path.
fn files(folder: &Path) -> Result<BTreeMap<PathBuf, String>> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).with_context(|| format!("cannot read {}", next.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else {
                let text =
                    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
                found.insert(path.strip_prefix(folder).unwrap_or(&path).to_path_buf(), text);
            }
        }
    }
    Ok(found)
}
