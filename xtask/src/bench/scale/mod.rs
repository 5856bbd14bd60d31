//! `cargo xtask bench scale`: whether the cost of a pod depends on the number of nodes.
//!
//! ```text
//! members  ferroband-scale members ◀─ commands ─┐    16, 64 and 256 node daemons in one process, a lab's API server
//!          API server's /metrics ──differences──┤
//! model    ferroband-scale model ───────────────┼──▶ ScaleReport ──▶ text or JSON, target/bench/scale.{json,svg}
//! leader   ferroband-scale leader ──────────────┘        └──▶ limits: `--check` exits with 1 and names what misses
//! ```

mod fit;
mod limits;
mod members;
mod metrics;
mod plot;
mod program;
mod report;
mod text;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use ferroband_lab::cluster::{Lab, LabUpArgs, down, up};
use ferroband_lab::{image, workspace};
use report::{MembersRow, ScaleReport};
use std::fs;
use std::path::{Path, PathBuf};

/// `cargo xtask bench scale`
#[derive(Args, Debug)]
pub struct BenchScaleArgs {
    /// Numbers of member daemons in the lab
    #[arg(long, value_delimiter = ',', default_value = "16,64,256")]
    members: Vec<usize>,
    /// Numbers of nodes in the model
    #[arg(long, value_delimiter = ',', default_value = "1000,2000,5000,10000")]
    model_nodes: Vec<usize>,
    /// Number of nodes in the load test of the leader
    #[arg(long, default_value_t = 10_000)]
    leader_nodes: usize,
    /// Parts to run [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<BenchScalePart>,
    /// Exit with 1 if a figure misses its limit
    #[arg(long)]
    check: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = BenchScaleOutput::Text)]
    output: BenchScaleOutput,
    /// Measure in this running lab instead of in a new one
    #[arg(long, value_name = "NAME")]
    within: Option<String>,
    /// Folder with `ferroband`, for the leader; built if not given
    #[arg(long, env = "FERROBAND_PROGRAMS")]
    programs: Option<PathBuf>,
    /// The program `ferroband-scale`; built if not given
    #[arg(long, value_name = "FILE")]
    scale_program: Option<PathBuf>,
    /// Cargo profile of `ferroband-scale`
    #[arg(long, default_value = "release")]
    profile: String,
}

/// Parts of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum BenchScalePart {
    /// Member daemons against a lab's API server; needs root
    Members,
    /// Model of many nodes
    Model,
    /// Load test of the leader
    Leader,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum BenchScaleOutput {
    Text,
    Json,
}

/// Runs the benchmark and returns the exit code.
pub fn measure(args: &BenchScaleArgs) -> Result<i32> {
    let program = match &args.scale_program {
        Some(program) => program.clone(),
        None => program::build(&args.profile)?,
    };
    let runs = |part| args.only.is_empty() || args.only.contains(&part);
    let mut report = ScaleReport::default();
    if runs(BenchScalePart::Model) {
        report.model = program::run_model(&program, &args.model_nodes)?;
    }
    if runs(BenchScalePart::Leader) {
        let ferroband = match &args.programs {
            Some(folder) => folder.join("ferroband"),
            None => image::build_binaries()?.ferroband,
        };
        report.leader = Some(program::run_leader(&program, &ferroband, args.leader_nodes)?);
    }
    if runs(BenchScalePart::Members) {
        report.members = measure_members(args, &program)?;
    }
    report.fit();
    let limits = limits::limits(&report);
    let mut json = serde_json::to_value(&report)?;
    json["limits"] = serde_json::to_value(&limits)?;
    let folder = write_files(&json, &plot::render_svg(&report.panels()))?;
    match args.output {
        BenchScaleOutput::Json => println!("{json:#}"),
        BenchScaleOutput::Text => text::print(&report, &limits),
    }
    eprintln!("written: {0}/scale.json, {0}/scale.svg", folder.display());
    let missed: Vec<_> = limits.iter().filter(|limit| !limit.holds()).collect();
    for limit in &missed {
        eprintln!("MISSED {}: {:.2}, at most {}", limit.what, limit.value, limit.most);
    }
    Ok(i32::from(args.check && !missed.is_empty()))
}

fn measure_members(args: &BenchScaleArgs, program: &Path) -> Result<Vec<MembersRow>> {
    let measure_in =
        |lab: &Lab| args.members.iter().map(|count| members::measure(lab, program, *count)).collect();
    if let Some(name) = &args.within {
        return measure_in(&Lab::named(name)?);
    }
    let lab = Lab::named(&format!("bench-{}", std::process::id()))?;
    let lab_args = LabUpArgs {
        nodes: Some(1),
        install: true,
        profile: "default".to_owned(),
        owner: Some(std::process::id()),
        ..LabUpArgs::unchanged()
    };
    let measured = up(&lab, &lab_args).and_then(|()| measure_in(&lab));
    down(&lab).and(measured)
}

/// Writes `target/bench/scale.json` and `target/bench/scale.svg`.
fn write_files(json: &serde_json::Value, svg: &str) -> Result<PathBuf> {
    let metadata = workspace::metadata()?;
    let target = metadata["target_directory"].as_str().context("cargo metadata has no target folder")?;
    let folder = Path::new(target).join("bench");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    fs::write(folder.join("scale.json"), format!("{json:#}\n")).context("cannot write scale.json")?;
    fs::write(folder.join("scale.svg"), svg).context("cannot write scale.svg")?;
    Ok(folder)
}
