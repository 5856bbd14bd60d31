//! Runs test programs in lanes, several at a time: most tests wait more than they compute.
//!
//! ```text
//! queue of programs ─┬─▶ lane 1: shared lab A ── one program after the other
//!                    ├─▶ lane 2: shared lab B
//!                    └─▶ lane 3: no lab       ── only programs that need no shared lab
//! ```

use super::tally::Tally;
use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use serde_json::Value;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

/// A compiled file of tests, or the unit tests of a library or program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TestProgram {
    /// Package and target, for example `ferroband-node netns`.
    pub name: String,
    pub program: PathBuf,
    /// Folder of its package. Tests run there, as under cargo.
    pub folder: PathBuf,
    /// Source file.
    pub source: PathBuf,
    /// Whether it needs the lab of a lane.
    pub needs_lab: bool,
}

impl TestProgram {
    /// Reads a message of `cargo test --message-format json`. Returns `None` if it is about something else.
    pub fn from_message(message: &Value) -> Option<Self> {
        let program = message["executable"].as_str().filter(|_| message["profile"]["test"] == true)?;
        let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
        let target = &message["target"];
        let package = folder.file_name()?.to_string_lossy().into_owned();
        Some(Self {
            name: format!("{package} {}", target["name"].as_str()?),
            program: PathBuf::from(program),
            folder: folder.to_owned(),
            source: PathBuf::from(target["src_path"].as_str()?),
            needs_lab: false,
        })
    }
}

/// What all programs of a tier get.
#[derive(Default)]
pub struct TestOptions<'a> {
    /// Arguments of every program.
    pub args: Vec<&'a str>,
    pub environment: Vec<(&'static str, OsString)>,
}

/// Programs that no lane has taken yet.
struct ProgramQueue(Mutex<Vec<TestProgram>>);

impl ProgramQueue {
    /// Takes the next program for a lane. A lane with a lab prefers programs that need one, because the other lanes
    /// cannot run those.
    fn take(&self, has_lab: bool) -> Option<TestProgram> {
        let mut programs = self.0.lock();
        let with_lab = programs.iter().position(|program| has_lab && program.needs_lab);
        let position = with_lab.or_else(|| programs.iter().position(|program| !program.needs_lab));
        position.map(|position| programs.remove(position))
    }
}

/// Runs all programs, one lane for each of `lanes`: the name of its lab, or `None`.
pub fn run(
    tally: &mut Tally,
    programs: Vec<TestProgram>,
    lanes: &[Option<&str>],
    options: &TestOptions<'_>,
) -> Result<()> {
    let queue = &ProgramQueue(Mutex::new(programs));
    let lanes: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> =
            lanes.iter().map(|lab| scope.spawn(move || run_lane(queue, *lab, options))).collect();
        running.into_iter().map(|lane| lane.join().unwrap_or_else(|_| bail!("a lane panicked"))).collect()
    });
    for (name, output) in lanes.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten() {
        let counted = tally.add_libtest_output(&output.text);
        if !output.status.success() && (!counted || !output.text.contains("FAILED")) {
            tally.fail(format!("{name}: {}", output.status));
        }
    }
    Ok(())
}

fn run_lane(
    queue: &ProgramQueue,
    lab: Option<&str>,
    options: &TestOptions<'_>,
) -> Result<Vec<(String, TestOutput)>> {
    let mut outputs = Vec::new();
    while let Some(TestProgram { name, program, folder, .. }) = queue.take(lab.is_some()) {
        let mut tests = Command::new(program);
        tests.current_dir(&folder).args(&options.args).env("CARGO_MANIFEST_DIR", folder);
        tests.env("FERROBAND_LAB", lab.unwrap_or("none")).envs(options.environment.iter().cloned());
        let output = run_printing(&mut tests, &name)?;
        outputs.push((name, output));
    }
    Ok(outputs)
}

/// Output and exit status of a test program.
struct TestOutput {
    text: String,
    status: ExitStatus,
}

/// Runs tests and prints their output, except passed tests. Each line starts with the program's name.
fn run_printing(tests: &mut Command, name: &str) -> Result<TestOutput> {
    let mut child = tests.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot run {name}"))?;
    let mut text = String::new();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            let line = line.with_context(|| format!("cannot read the output of {name}"))?;
            if !line.is_empty() && !line.contains("... ok") && !line.starts_with("running ") {
                eprintln!("  {name}: {line}");
            }
            text.push_str(&line);
            text.push('\n');
        }
    }
    let status = child.wait().with_context(|| format!("cannot wait for {name}"))?;
    Ok(TestOutput { text, status })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn program(name: &str, needs_lab: bool) -> TestProgram {
        TestProgram { name: name.to_string(), needs_lab, ..TestProgram::default() }
    }

    #[test]
    fn lane_without_a_lab_takes_only_programs_that_need_none() {
        let queue =
            ProgramQueue(Mutex::new(vec![program("a", true), program("b", false), program("c", false)]));
        let names = [queue.take(false), queue.take(true), queue.take(true), queue.take(true)]
            .map(|taken| taken.map(|program| program.name));
        assert_eq!(names, [Some("b"), Some("a"), Some("c"), None].map(|name| name.map(String::from)));
        let queue = ProgramQueue(Mutex::new(vec![program("a", true)]));
        assert_eq!(queue.take(false), None);
    }

    #[test]
    fn test_programs_are_found_in_the_messages_of_cargo() {
        let mut message = json!({
            "manifest_path": "/x/crates/node/Cargo.toml", "executable": "/t/netns-1", "profile": {"test": true},
            "target": {"name": "netns", "src_path": "/x/crates/node/tests/netns.rs"},
        });
        let found = TestProgram::from_message(&message).expect("a test program");
        assert_eq!(
            (found.name.as_str(), found.folder.as_path()),
            ("node netns", Path::new("/x/crates/node"))
        );
        message["profile"]["test"] = json!(false);
        assert_eq!(TestProgram::from_message(&message), None);
    }

    #[test]
    fn failed_and_crashed_programs_are_counted() {
        let shell = |name: &str| TestProgram {
            name: name.to_string(),
            program: PathBuf::from("/bin/sh"),
            folder: PathBuf::from("/"),
            ..TestProgram::default()
        };
        let mut tally = Tally::default();
        let options = TestOptions { args: vec!["-c", "exit 3"], ..TestOptions::default() };
        run(&mut tally, vec![shell("a"), shell("b")], &[None, None], &options).expect("it runs");
        assert_eq!(tally.finish(), 1);
    }
}
