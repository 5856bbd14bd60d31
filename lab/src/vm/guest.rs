//! Contents of the guest: init, the tests of `tests/vm`, and the programs they use.
//!
//! A test is a script with optional header lines: `# limit N` sets its time limit in seconds; `# needs PACKAGE` (or
//! `PACKAGE:TEST`) builds a program of the workspace for it; `# peers` skips it unless upstream plugins are given;
//! `# on demand` skips it unless it is selected by its full name; `# machines 2` runs it with a second machine in the
//! same fabric.

use super::cache::{VmCache, files_under};
use super::userland::Userland;
use crate::command::{command, output};
use crate::progress::run_step;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const TARGET: &str = "x86_64-unknown-linux-musl";
const DEFAULT_LIMIT: u32 = 60;
/// Time limits are for an idle host; a busy one may take this many times longer. `fabric.sh` uses the same factor.
const LIMIT_FACTOR: u32 = 5;

/// Selection of guest tests.
pub struct GuestTestSelection<'a> {
    /// Selects by a test's name and whether it runs on demand only.
    pub test: &'a dyn Fn(&str, bool) -> bool,
    /// Folder with upstream CNI plugins.
    pub peers: Option<&'a Path>,
}

impl GuestTestSelection<'_> {
    /// Selects no test.
    pub const NONE: GuestTestSelection<'static> = GuestTestSelection { test: &|_, _| false, peers: None };
}

/// A file for the guest.
pub struct GuestFile {
    /// Path on the host.
    pub from: PathBuf,
    /// Path in the guest, without the leading slash.
    pub to: String,
}

/// One guest test.
pub struct GuestTest {
    /// File name without extension.
    pub name: String,
    /// Time limit in seconds.
    pub limit: u32,
    /// Number of machines in one fabric: 1 or 2.
    pub machines: u8,
}

/// Files of the checkout in the guest.
pub struct GuestContents {
    /// Files in a fixed order.
    pub items: Vec<GuestFile>,
    /// Tests among the files.
    pub tests: Vec<GuestTest>,
}

impl GuestContents {
    /// Compiles programs and lists the guest's files.
    pub fn build(
        cache: &VmCache,
        checkout: &Path,
        userland: &Userland,
        selection: &GuestTestSelection<'_>,
    ) -> Result<Self> {
        let mut items = vec![GuestFile { from: build_init(cache, checkout)?, to: "init".to_owned() }];
        for file in files_under(&checkout.join("lab/vm/guest"))? {
            items.push(GuestFile { to: format!("lab/guest/{}", file_name(&file)?), from: file });
        }
        items.extend(build_c_programs(cache, checkout, userland)?);
        let mut tests = Vec::new();
        let mut needs = BTreeSet::new();
        for file in files_under(&checkout.join("tests/vm"))? {
            let name = file_name(&file)?;
            let Some(name) = name.strip_suffix(".sh") else { continue };
            let script = fs::read_to_string(&file)?;
            let says = |words: &str| script.lines().any(|line| line == words);
            if (selection.test)(name, says("# on demand")) && (selection.peers.is_some() || !says("# peers"))
            {
                let limit = header_value(&script, "limit")
                    .and_then(|word| word.parse().ok())
                    .unwrap_or(DEFAULT_LIMIT)
                    * LIMIT_FACTOR;
                needs.extend(header_value(&script, "needs").map(str::to_owned));
                let machines = if header_value(&script, "machines") == Some("2") { 2 } else { 1 };
                tests.push(GuestTest { name: name.to_owned(), limit, machines });
                items.push(GuestFile { to: format!("lab/tests/{name}"), from: file });
            }
        }
        for program in needs {
            let to = format!("lab/bin/{}", program.replace(':', "-"));
            items.push(GuestFile { from: build_product_program(checkout, &program)?, to });
        }
        if let Some(folder) = selection.peers {
            items.extend(peer_plugins(folder)?);
        }
        Ok(Self { items, tests })
    }

    /// init's list of tests for this number of machines, one line "name seconds path" each.
    pub fn manifest(&self, machines: u8) -> String {
        let tests = self.tests.iter().filter(|test| test.machines == machines);
        tests.map(|test| format!("{0} {1} /lab/tests/{0}\n", test.name, test.limit)).collect()
    }
}

/// Upstream plugins under their CNI type names.
fn peer_plugins(folder: &Path) -> Result<Vec<GuestFile>> {
    let mut items = Vec::new();
    for file in files_under(folder)? {
        let name = file_name(&file)?;
        let plain = name.trim_end_matches("-cni");
        items.push(GuestFile { to: format!("lab/peers/{plain}"), from: file });
    }
    if items.is_empty() {
        bail!("no plugins in {}", folder.display());
    }
    Ok(items)
}

/// Value of a header line "# word value" of a script.
fn header_value<'a>(script: &'a str, word: &str) -> Option<&'a str> {
    script
        .lines()
        .find_map(|line| line.strip_prefix("# ")?.strip_prefix(word)?.strip_prefix(' '))
        .map(str::trim)
}

/// Builds a static program of the workspace, since the guest shares no libraries with the host: `PACKAGE` is the
/// program of that name, `PACKAGE:TARGET` its integration test TARGET.
fn build_product_program(checkout: &Path, program: &str) -> Result<PathBuf> {
    ensure_target()?;
    let (mut cargo, name) = match program.split_once(':') {
        None => (command("cargo", ["build", "--package", program, "--profile", "cni"]), program),
        Some((package, target)) => {
            (command("cargo", ["test", "--no-run", "--package", package, "--test", target]), target)
        }
    };
    cargo.current_dir(checkout);
    if !program.contains(':') {
        // The flags of a release: the program is then built once for both.
        crate::image::set_release_flags(&mut cargo, TARGET)?;
    }
    cargo.args(["--quiet", "--target", TARGET, "--message-format", "json-render-diagnostics"]);
    let built = run_step(format!("{program} for the guest"), |_| output(&mut cargo))?;
    // cargo's messages contain the path, however the build folder is configured.
    let messages = built.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let matching = messages.filter(|message| message["target"]["name"] == name);
    let path = matching.filter_map(|message| message["executable"].as_str().map(PathBuf::from)).next_back();
    path.with_context(|| format!("cargo did not build {name}"))
}

fn file_name(path: &Path) -> Result<String> {
    path.file_name()
        .and_then(|name| name.to_str())
        .map(str::to_owned)
        .context("a file name that is not UTF-8")
}

/// Builds the guest's init, which is a separate package.
fn build_init(cache: &VmCache, checkout: &Path) -> Result<PathBuf> {
    let target = cache.dir("target-init")?;
    ensure_target()?;
    let mut build = command("cargo", ["build", "--quiet", "--locked", "--release", "--target", TARGET]);
    output(build.current_dir(checkout.join("lab/vm/init")).env("CARGO_TARGET_DIR", &target))
        .context("cannot compile lab/vm/init")?;
    Ok(target.join(TARGET).join("release/vm-init"))
}

/// Installs the static Rust target if missing.
fn ensure_target() -> Result<()> {
    let sysroot = output(&mut command("rustc", ["--print", "sysroot"]))?;
    if Path::new(sysroot.trim()).join("lib/rustlib").join(TARGET).is_dir() {
        return Ok(());
    }
    run_step(format!("Rust target {TARGET}"), |_| {
        output(&mut command("rustup", ["target", "add", TARGET])).map(drop)
    })
}

/// Builds the tests' C programs with the guest's InfiniBand libraries.
fn build_c_programs(cache: &VmCache, checkout: &Path, userland: &Userland) -> Result<Vec<GuestFile>> {
    let sources = checkout.join("tests/vm/programs");
    let mut items = Vec::new();
    for source in files_under(&sources)? {
        let name = file_name(&source)?;
        let Some(name) = name.strip_suffix(".c") else { bail!("{}: not a C file", source.display()) };
        let key = super::cache::hash_key((fs::read(&source)?, &userland.development));
        let dir = cache.keyed(&format!("program-{name}"), &key, |dir| {
            run_step(format!("guest program {name}"), |_| {
                let root = userland.development.join("usr");
                let libraries = root.join("lib/x86_64-linux-gnu");
                output(
                    command("gcc", ["-O2", "-Wall", "-Wextra", "-Werror", "-std=gnu11"])
                        .arg(format!("-I{}", root.join("include").display()))
                        .arg(&source)
                        .arg("-o")
                        .arg(dir.join(name))
                        .arg(format!("-L{}", libraries.display()))
                        .arg(format!("-Wl,-rpath-link,{}", libraries.display()))
                        .args(["-libverbs", "-libmad", "-libumad"]),
                )
                .map(drop)
            })
        })?;
        items.push(GuestFile { from: dir.join(name), to: format!("lab/bin/{name}") });
    }
    Ok(items)
}
