//! `cargo xtask dist --reproduce`: builds the commit once more, in another folder, and compares the digests.

use super::checksums;
use anyhow::{Context, Result, bail, ensure};
use ferroband_lab::cache;
use ferroband_lab::command::{command, output, run};
use ferroband_lab::progress::run_step;
use std::fs;
use std::path::Path;

/// Fails if a clone of this checkout yields other files than those in `first`.
pub fn check(first: &Path) -> Result<()> {
    let checkout = cache::checkout();
    let changes =
        output(command("git", ["status", "--porcelain", "--untracked-files=no"]).current_dir(&checkout))?;
    ensure!(changes.trim().is_empty(), "commit these changes first, or the clone lacks them:\n{changes}");
    let folder = cache::folder("reproduce")?.join(std::process::id().to_string());
    let compared = run_step("second build in another folder", |_| {
        // The length of the path differs from that of the checkout as well.
        let clone = folder.join("in/another/folder");
        run(command("git", ["clone", "--quiet", "--no-hardlinks"]).arg(&checkout).arg(&clone))?;
        let mut second = command("cargo", ["xtask", "dist", "--this-architecture", "--out"]);
        second.arg(folder.join("dist")).current_dir(&clone).env("CARGO_TARGET_DIR", folder.join("build"));
        run(&mut second)?;
        compare(&read(first)?, &read(&folder.join("dist"))?)
    });
    let _ = fs::remove_dir_all(&folder);
    compared
}

fn read(folder: &Path) -> Result<String> {
    let file = folder.join(checksums::FILE);
    fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
}

/// Fails with the names of the files whose checksums differ.
fn compare(first: &str, second: &str) -> Result<()> {
    let missing_in = |text: &str, other: &str| {
        let lines = text.lines().filter(|line| !other.lines().any(|one| one == *line));
        lines.filter_map(|line| Some(line.split_once("  ")?.1.to_owned())).collect::<Vec<_>>()
    };
    let mut names = missing_in(first, second);
    names.extend(missing_in(second, first));
    names.sort();
    names.dedup();
    if names.is_empty() { Ok(()) } else { bail!("not reproducible: {}", names.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::compare;

    #[test]
    fn files_that_differ_are_named() {
        compare("1  a\n2  b\n", "1  a\n2  b\n").unwrap();
        let error = compare("1  a\n2  b\n", "1  a\n3  b\n4  c\n").unwrap_err().to_string();
        assert_eq!(error, "not reproducible: b, c");
    }
}
