//! What runs inside: our init, the tests of `tests/vm`, and the programs they use.
//!
//! A test is a script; a line `# limit N` in it sets its time limit in seconds, `# needs PACKAGE` (or `PACKAGE:TEST`) has
//! a program of the product built for it, `# peers` leaves it out unless plugins of others are given, `# on demand` leaves it out unless it is asked for by its whole name, `# machines 2` runs it beside a second machine of the same fabric.

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
/// Limits are those of an idle host; a busy one may take that many times longer. `fabric.sh` waits likewise.
const LIMIT_FACTOR: u32 = 5;

/// Which tests go along.
pub struct GuestTestSelection<'a> {
    /// Decides by a test's name and whether it is one to run on demand only.
    pub test: &'a dyn Fn(&str, bool) -> bool,
    /// A folder of CNI plugins of others.
    pub peers: Option<&'a Path>,
}

impl GuestTestSelection<'_> {
    /// No test at all.
    pub const NONE: GuestTestSelection<'static> = GuestTestSelection { test: &|_, _| false, peers: None };
}

/// A file for the guest.
pub struct GuestFile {
    /// Where it comes from.
    pub from: PathBuf,
    /// Where it goes, without the leading slash.
    pub to: String,
}

/// One guest test.
pub struct GuestTest {
    /// File name without its ending.
    pub name: String,
    /// Seconds it may take.
    pub limit: u32,
    /// How many machines it needs, joined to one fabric: 1 or 2.
    pub machines: u8,
}

/// Everything of the checkout that goes into the guest.
pub struct GuestContents {
    /// Files, in a fixed order.
    pub items: Vec<GuestFile>,
    /// The tests among them.
    pub tests: Vec<GuestTest>,
}

impl GuestContents {
    /// Compiles what must be compiled and lists what the guest gets.
    pub fn build(
        cache: &VmCache,
        checkout: &Path,
        userland: &Userland,
        wanted: &GuestTestSelection<'_>,
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
            if (wanted.test)(name, says("# on demand")) && (wanted.peers.is_some() || !says("# peers")) {
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
        if let Some(folder) = wanted.peers {
            items.extend(peer_plugins(folder)?);
        }
        Ok(Self { items, tests })
    }

    /// The list init works off when there are so many machines: one line "name seconds path" for each test.
    pub fn manifest(&self, machines: u8) -> String {
        let tests = self.tests.iter().filter(|test| test.machines == machines);
        tests.map(|test| format!("{0} {1} /lab/tests/{0}\n", test.name, test.limit)).collect()
    }
}

/// The plugins of others, under the names that configurations call them by.
fn peer_plugins(folder: &Path) -> Result<Vec<GuestFile>> {
    let mut items = Vec::new();
    for file in files_under(folder)? {
        let name = file_name(&file)?;
        let plain = name.trim_end_matches("-cni");
        items.push(GuestFile { to: format!("lab/peers/{plain}"), from: file });
    }
    if items.is_empty() {
        bail!("no plugin in {}", folder.display());
    }
    Ok(items)
}

/// The rest of a line "# word rest" of a script.
fn header_value<'a>(script: &'a str, word: &str) -> Option<&'a str> {
    script
        .lines()
        .find_map(|line| line.strip_prefix("# ")?.strip_prefix(word)?.strip_prefix(' '))
        .map(str::trim)
}

/// A program of the product, static, as the guest shares no libraries with the host: `PACKAGE` is the program of that
/// name, `PACKAGE:TARGET` the integration tests of that name.
fn build_product_program(checkout: &Path, wanted: &str) -> Result<PathBuf> {
    ensure_target()?;
    let (mut cargo, name) = match wanted.split_once(':') {
        None => (command("cargo", ["build", "--package", wanted, "--profile", "cni"]), wanted),
        Some((package, target)) => {
            (command("cargo", ["test", "--no-run", "--package", package, "--test", target]), target)
        }
    };
    cargo.current_dir(checkout);
    cargo.args(["--quiet", "--target", TARGET, "--message-format", "json-render-diagnostics"]);
    let built = run_step(format!("{wanted} for the guest"), |_| output(&mut cargo))?;
    // Cargo says where it put the program; a build folder may be set in many ways.
    let messages = built.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let ours = messages.filter(|message| message["target"]["name"] == name);
    let path = ours.filter_map(|message| message["executable"].as_str().map(PathBuf::from)).next_back();
    path.with_context(|| format!("cargo has built no program {name}"))
}

fn file_name(path: &Path) -> Result<String> {
    path.file_name()
        .and_then(|name| name.to_str())
        .map(str::to_owned)
        .context("a file name that is not UTF-8")
}

/// The guest's first process. A package of its own, as it shares nothing with the product.
fn build_init(cache: &VmCache, checkout: &Path) -> Result<PathBuf> {
    let target = cache.dir("target-init")?;
    ensure_target()?;
    let mut build = command("cargo", ["build", "--quiet", "--locked", "--release", "--target", TARGET]);
    output(build.current_dir(checkout.join("lab/vm/init")).env("CARGO_TARGET_DIR", &target))
        .context("lab/vm/init does not compile")?;
    Ok(target.join(TARGET).join("release/vm-init"))
}

/// The static target of the Rust toolchain; rustup has it where it is not installed yet.
fn ensure_target() -> Result<()> {
    let sysroot = output(&mut command("rustc", ["--print", "sysroot"]))?;
    if Path::new(sysroot.trim()).join("lib/rustlib").join(TARGET).is_dir() {
        return Ok(());
    }
    run_step(format!("Rust target {TARGET}"), |_| {
        output(&mut command("rustup", ["target", "add", TARGET])).map(drop)
    })
}

/// C programs of the tests, linked to the guest's InfiniBand libraries.
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
