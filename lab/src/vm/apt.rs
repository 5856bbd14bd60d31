//! Debian packages by name, without root: apt with its state in the cache, unpacked with dpkg-deb.
//!
//! apt resolves dependencies against an empty package status, so the result does not depend on the host's packages. It
//! verifies every file against the signed lists. The host's configuration selects the mirror.

use super::cache::{VmCache, hash_key};
use crate::command::{command, output};
use crate::progress::run_step;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Age after which the package lists are updated.
const MAX_LIST_AGE: Duration = Duration::from_secs(30 * 24 * 3600);

/// The Debian release after the host's.
const NEWER_RELEASE: &str = "trixie";
/// Archive keys of all releases, from debian-archive-keyring.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Downloads packages with all dependencies.
pub fn download_with_dependencies(cache: &VmCache, apt: &Apt, names: &[&str]) -> Result<Vec<PathBuf>> {
    let debs = cache.dir(&format!("debs/{}", hash_key(names)))?;
    fs::create_dir_all(debs.join("partial"))?;
    let archives = format!("Dir::Cache::archives={}", debs.display());
    let fetch = || {
        let mut command = apt.command("apt-get");
        command.args(["-o", &archives, "-y", "-q", "--no-install-recommends", "--download-only", "install"]);
        output(command.args(names))
    };
    if fetch().is_err() {
        // An old list names files that the archive no longer has.
        apt.update()?;
        fetch()?;
    }
    packages_in(&debs)
}

/// Downloads packages without dependencies.
pub fn download(apt: &Apt, names: &[String], into: &Path) -> Result<Vec<PathBuf>> {
    let fetch = || output(apt.command("apt-get").current_dir(into).args(["-q", "download"]).args(names));
    if fetch().is_err() {
        apt.update()?;
        fetch()?;
    }
    packages_in(into)
}

/// All package names that start with `prefix`.
pub fn package_names(apt: &Apt, prefix: &str) -> Result<Vec<String>> {
    let listed = output(apt.command("apt-cache").args(["pkgnames", prefix]))?;
    Ok(listed.lines().map(str::to_owned).collect())
}

/// Direct dependencies of a package.
pub fn dependencies(apt: &Apt, name: &str) -> Result<Vec<String>> {
    let listed = output(apt.command("apt-cache").args(["depends", "-i", name]))?;
    Ok(listed.lines().filter_map(|line| line.trim().strip_prefix("Depends: ")).map(str::to_owned).collect())
}

/// The version that apt would install.
pub fn candidate_version(apt: &Apt, name: &str) -> Result<String> {
    let shown = output(apt.command("apt-cache").args(["policy", name]))?;
    let version = shown.lines().find_map(|line| line.trim().strip_prefix("Candidate: "));
    version.map(str::to_owned).with_context(|| format!("apt does not know the package {name}"))
}

/// Unpacks packages into `root`.
pub fn unpack(debs: &[PathBuf], root: &Path) -> Result<()> {
    for deb in debs {
        output(command("dpkg-deb", ["-x"]).arg(deb).arg(root))?;
    }
    Ok(())
}

fn packages_in(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut debs = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("list {}", dir.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            debs.push(path);
        }
    }
    debs.sort();
    if debs.is_empty() {
        bail!("apt downloaded no package to {}", dir.display());
    }
    Ok(debs)
}

/// apt with its own lists and caches; sources and keys are the host's.
pub struct Apt {
    state: PathBuf,
    sources: Option<PathBuf>,
}

impl Apt {
    /// apt with the host's sources.
    pub fn host(cache: &VmCache) -> Result<Self> {
        Self { state: cache.dir("apt")?, sources: None }.prepared()
    }

    /// apt with the next release and its backports, for newer kernels, from the host's mirror.
    pub fn newer(cache: &VmCache) -> Result<Self> {
        let state = cache.dir(&format!("apt-{NEWER_RELEASE}"))?;
        let targets =
            ["indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"];
        let listed = output(&mut command("apt-get", targets))?;
        let mirror = listed.lines().find_map(|line| {
            let [uri, release, "main"] = line.split(' ').collect::<Vec<_>>()[..] else { return None };
            (!release.contains('-')).then(|| uri.to_owned())
        });
        let mirror = mirror.context("no Debian archive in apt's sources: see /etc/apt/sources.list")?;
        let line = |suite: &str| format!("deb [signed-by={KEYRING}] {mirror} {suite} main\n");
        let sources = state.join("sources.list");
        fs::write(&sources, line(NEWER_RELEASE) + &line(&format!("{NEWER_RELEASE}-backports")))?;
        fs::create_dir_all(state.join("none"))?;
        Self { state, sources: Some(sources) }.prepared()
    }

    fn prepared(self) -> Result<Self> {
        fs::create_dir_all(self.state.join("lists/partial"))?;
        fs::write(self.state.join("status"), "")?;
        let stamp = fs::metadata(self.state.join("updated")).and_then(|meta| meta.modified()).ok();
        if stamp.and_then(|time| time.elapsed().ok()).is_none_or(|age| age >= MAX_LIST_AGE) {
            self.update()?;
        }
        Ok(self)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let state = self.state.display();
        for option in [
            format!("Dir::State::lists={state}/lists"),
            format!("Dir::State::status={state}/status"),
            format!("Dir::State::extended_states={state}/extended_states"),
            format!("Dir::Cache={state}"),
            "APT::Sandbox::User=".to_owned(),
            "Debug::NoLocking=true".to_owned(),
        ] {
            command.args(["-o", &option]);
        }
        if let Some(sources) = &self.sources {
            command.args(["-o", &format!("Dir::Etc::sourcelist={}", sources.display())]);
            command.args(["-o", &format!("Dir::Etc::sourceparts={state}/none")]);
        }
        command.env("LC_ALL", "C");
        command
    }

    fn update(&self) -> Result<()> {
        run_step("package lists", |_| {
            output(self.command("apt-get").args(["-q", "update"]))?;
            fs::write(self.state.join("updated"), "")?;
            Ok(())
        })
    }
}
