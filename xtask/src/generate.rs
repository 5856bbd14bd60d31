//! Generated files in the repository: CRDs, manifests, completions, manual pages, the book's reference.

use crate::check::{cases, golden};
use anyhow::{Context, Result, bail};
use ferroband_lab::cache;
use ferroband_lab::command::{command, output, run};
use ferroband_lab::progress::run_step;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Regenerates all of them.
pub fn generate() -> Result<()> {
    let checkout = cache::checkout();
    run_step("generated files in deploy/ and docs/reference/", |_| {
        let program = build_cli()?;
        for folder in GENERATED_DIRS {
            let _ = fs::remove_dir_all(checkout.join(folder));
        }
        generate_into(&checkout, &program)
    })?;
    run_step("tests of each case in docs/cases/", |_| cases::write())?;
    run_step("golden files in tests/golden/", |_| golden::write())
}

/// Folders with only generated files.
const GENERATED_DIRS: [&str; 5] =
    ["deploy/crds", "deploy/completions", "deploy/man", CHART, "docs/reference"];
const CHART: &str = "deploy/charts/ferroband/templates/daemons";

/// Shells and the file names of their completions.
pub const SHELLS: [(&str, &str); 3] =
    [("bash", "ferroband.bash"), ("zsh", "_ferroband"), ("fish", "ferroband.fish")];

/// Fails if the committed files differ from freshly generated ones.
pub fn check_current() -> Result<()> {
    let fresh = cache::folder("generated")?.join(std::process::id().to_string());
    let result = build_cli().and_then(|program| generate_into(&fresh, &program)).and_then(|()| {
        let (expected, checkout) = (read_files(&fresh)?, cache::checkout());
        let same = |name: &Path, text: &str| {
            fs::read_to_string(checkout.join(name)).is_ok_and(|found| found == text)
        };
        let mut stale: Vec<String> = expected
            .iter()
            .filter(|(name, text)| !same(name, text))
            .map(|(name, _)| name.display().to_string())
            .collect();
        for folder in
            GENERATED_DIRS.map(|folder| checkout.join(folder)).iter().filter(|folder| folder.is_dir())
        {
            let found = read_files(folder)?.into_keys().map(|name| folder.join(name));
            let names = found.filter_map(|path| Some(path.strip_prefix(&checkout).ok()?.to_path_buf()));
            let left = names.filter(|name| !expected.contains_key(name));
            stale.extend(left.map(|name| format!("{} (no longer generated)", name.display())));
        }
        if stale.is_empty() {
            Ok(())
        } else {
            bail!("run `cargo xtask generate`: stale: {}", stale.join(", "))
        }
    });
    let _ = fs::remove_dir_all(&fresh);
    result
}

/// Builds the CLI that writes the files, and returns its path.
fn build_cli() -> Result<PathBuf> {
    run(command("cargo", ["build", "--quiet", "--package", "ferroband-cli"]).current_dir(cache::checkout()))?;
    Ok(ferroband_lab::image::cargo_target_dir()?.join("debug/ferroband"))
}

/// Writes all generated files below a folder.
fn generate_into(folder: &Path, program: &Path) -> Result<()> {
    for below in GENERATED_DIRS {
        fs::create_dir_all(folder.join(below)).with_context(|| format!("cannot create {below}"))?;
    }
    let ferroband = |args: &[&str]| command(&program.to_string_lossy(), args);
    run(ferroband(&["crds", "print", "--dir"]).arg(folder.join("deploy/crds")))?;
    run(ferroband(&["man", "--dir"]).arg(folder.join("deploy/man")))?;
    run(ferroband(&["reference", "--dir"]).arg(folder.join("docs/reference")))?;
    run(ferroband(&["manifests", "--chart"]).arg(folder.join(CHART)))?;
    let keep = |name: &str, args: &[&str]| -> Result<()> {
        let text = output(&mut ferroband(args))?;
        fs::write(folder.join("deploy").join(name), text).with_context(|| format!("cannot write {name}"))
    };
    keep("ferroband.yaml", &["manifests"])?;
    for (shell, name) in SHELLS {
        keep(&format!("completions/{name}"), &["completions", shell])?;
    }
    Ok(())
}

/// All files below a folder with their text, by relative path.
fn read_files(folder: &Path) -> Result<BTreeMap<PathBuf, String>> {
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
