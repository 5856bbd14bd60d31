//! ADD and DEL in an emulated machine with InfiniBand, alternating between Ferroband's and upstream plugins.

use super::BudgetCheck;
use anyhow::{Result, bail};
use clap::Args;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// `cargo xtask bench vm`
#[derive(Args, Debug)]
pub struct BenchVmArgs {
    /// Folder with the upstream CNI plugins: ipoib, ib-sriov, rdma
    #[arg(long, value_name = "FOLDER")]
    peers: PathBuf,
    /// Kernel series of Debian's packages
    #[arg(long, value_name = "SERIES", default_value = "6.1")]
    kernel: String,
}

/// The guest's cases and their titles.
const CASES: [(&str, &str); 7] = [
    ("version", "VERSION"),
    ("ipoib", "ipoib"),
    ("sriov", "ib-sriov"),
    ("sriov_guid", "ib-sriov, GUID"),
    ("sriov_isolated", "ib-sriov, isolated"),
    ("sriov_guid_isolated", "ib-sriov, GUID, isolated"),
    ("rdma", "rdma"),
];

/// Budget of an ADD relative to upstream's time. The kernel takes most of the time in both (decision 48), and two runs
/// differ by 10 %.
const MAX_RATIO: f64 = 1.1;

/// Milliseconds by case, plugin set and command.
type BenchTimes = BTreeMap<(String, String, String), Vec<f64>>;

/// Runs both and prints a table.
pub fn measure(args: &BenchVmArgs, budget: &mut BudgetCheck) -> Result<()> {
    let lines = ferroband_lab::vm::run_benchmark(&args.kernel, "bench-cni", &args.peers)?;
    for failed in lines.iter().filter(|line| line.starts_with("BENCH-FAILED")) {
        println!("  {failed}");
    }
    let times = parse_times(&lines);
    if times.is_empty() {
        bail!("the machine returned no measurements");
    }
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("  kernel {}, load of the host {}", args.kernel, load.split(' ').next().unwrap_or_default());
    println!("  {:<26} {:<8} {:>22} {:>22}", "median ms (min-max)", "", "ferroband", "upstream");
    for (case, title) in CASES {
        for command in ["VERSION", "ADD", "DEL"] {
            let of = |who: &str| times.get(&(case.to_owned(), who.to_owned(), command.to_owned()));
            let (own, upstream) = (of("ferroband"), of("upstream"));
            if own.is_none() && upstream.is_none() {
                continue;
            }
            println!("  {title:<26} {command:<8} {:>22} {:>22}", format_times(own), format_times(upstream));
            if let (Some(own), Some(upstream), "ADD") = (own, upstream, command) {
                let most = median(upstream) * MAX_RATIO;
                budget.at_most(&format!("{title}: ADD"), median(own), most, "ms");
            }
        }
    }
    Ok(())
}

/// Parses lines `BENCH CASE WHO COMMAND MILLISECONDS`.
fn parse_times(lines: &[String]) -> BenchTimes {
    let mut times = BenchTimes::new();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["BENCH", case, who, command, took] = words.as_slice()
            && let Ok(took) = took.parse()
        {
            let key = ((*case).to_owned(), (*who).to_owned(), (*command).to_owned());
            times.entry(key).or_default().push(took);
        }
    }
    times
}

fn format_times(times: Option<&Vec<f64>>) -> String {
    let Some(times) = times else { return "-".to_owned() };
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    let most = times.iter().copied().fold(0.0, f64::max);
    format!("{:.0} ({least:.0}-{most:.0})", median(times))
}

fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guest_lines_are_parsed() {
        let lines = [
            "BENCH ipoib ferroband ADD 13.0",
            "BENCH ipoib ferroband ADD 11.0",
            "BENCH-FAILED rdma ferroband ADD: x",
            "BENCH x",
        ];
        let times = parse_times(&lines.map(str::to_owned));
        assert_eq!(times.len(), 1);
        let own = &times[&("ipoib".to_owned(), "ferroband".to_owned(), "ADD".to_owned())];
        assert!((median(own) - 12.0).abs() < 1e-9);
        assert_eq!(format_times(Some(own)), "12 (11-13)");
        assert_eq!(format_times(None), "-");
    }
}
