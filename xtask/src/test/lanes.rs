//! Runs the files of the cluster tier in lanes, several at a time: a scenario mostly waits.
//!
//! ```text
//! queue of files ─┬─▶ lane 1: shared lab A ── one file after the other
//!                 ├─▶ lane 2: shared lab B
//!                 └─▶ lane 3: no lab       ── only files that start labs of their own
//! ```

use super::cargo::{TestOutput, run_printing};
use super::tally::Tally;
use anyhow::{Result, bail};
use ferroband_lab::cache;
use parking_lot::Mutex;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

/// A file with scenarios, compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioFile {
    pub name: String,
    pub program: PathBuf,
    /// Whether its scenarios start labs of their own.
    pub own_lab: bool,
}

impl ScenarioFile {
    pub fn new((name, program): (String, PathBuf)) -> Self {
        let own_lab = has_own_lab(&name);
        Self { name, program, own_lab }
    }
}

/// Whether a file's scenarios start their own lab, found by the call in the source.
fn has_own_lab(file: &str) -> bool {
    let path = cache::checkout().join("tests/cluster/tests").join(file).with_extension("rs");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    ["start_own_lab(", "start_bare_lab("].iter().any(|call| text.contains(call))
}

/// Files that no lane has taken yet.
struct FileQueue(Mutex<Vec<ScenarioFile>>);

impl FileQueue {
    /// Takes the next file for a lane. A lane with a lab prefers files that need one, because the other lane cannot
    /// run those.
    fn take(&self, has_lab: bool) -> Option<ScenarioFile> {
        let mut files = self.0.lock();
        let shared = files.iter().position(|file| has_lab && !file.own_lab);
        shared.or_else(|| files.iter().position(|file| file.own_lab)).map(|position| files.remove(position))
    }
}

/// Runs all files: one lane for each of `labs`, and one without a lab. `environment` is set for every file.
pub fn run(
    tally: &mut Tally,
    files: Vec<ScenarioFile>,
    labs: &[String],
    environment: &[(&str, OsString)],
    only: Option<&str>,
) -> Result<()> {
    let queue = FileQueue(Mutex::new(files));
    let outputs = thread::scope(|scope| {
        let queue = &queue;
        let lanes = labs.iter().map(Some).chain([None]);
        let running: Vec<_> =
            lanes.map(|lab| scope.spawn(move || run_lane(queue, lab, environment, only))).collect();
        let joined = running.into_iter().map(thread::ScopedJoinHandle::join);
        joined.map(|lane| lane.unwrap_or_else(|_| bail!("a lane panicked"))).collect::<Vec<_>>()
    });
    for (file, output) in outputs.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten() {
        let counted = tally.add_libtest_output(&output.text);
        if !output.status.success() && (!counted || !output.text.contains("FAILED")) {
            tally.fail(format!("{file}: {}", output.status));
        }
    }
    Ok(())
}

fn run_lane(
    queue: &FileQueue,
    lab: Option<&String>,
    environment: &[(&str, OsString)],
    only: Option<&str>,
) -> Result<Vec<(String, TestOutput)>> {
    let mut outputs = Vec::new();
    while let Some(file) = queue.take(lab.is_some()) {
        let mut tests = Command::new(&file.program);
        // As cargo does: tests run in the folder of their package.
        tests.current_dir(cache::checkout().join("tests/cluster")).arg("--test-threads=1").args(only);
        tests.env("FERROBAND_LAB", lab.map_or("none", String::as_str)).envs(environment.iter().cloned());
        outputs.push((file.name.clone(), run_printing(&mut tests, &format!("{}: ", file.name))?));
    }
    Ok(outputs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, own_lab: bool) -> ScenarioFile {
        ScenarioFile { name: name.to_string(), program: PathBuf::new(), own_lab }
    }

    #[test]
    fn lane_without_a_lab_takes_only_files_with_their_own() {
        let queue = FileQueue(Mutex::new(vec![file("a", false), file("b", true), file("c", true)]));
        let names = [queue.take(false), queue.take(true), queue.take(true), queue.take(true)]
            .map(|taken| taken.map(|file| file.name));
        assert_eq!(names, [Some("b"), Some("a"), Some("c"), None].map(|name| name.map(String::from)));
        let queue = FileQueue(Mutex::new(vec![file("a", false)]));
        assert_eq!(queue.take(false), None);
    }
}
