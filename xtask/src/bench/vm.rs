//! ADD and DEL in one emulated machine with InfiniBand, ours and theirs in turn.

use super::BudgetCheck;
use anyhow::{Result, bail};
use clap::Args;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// How.
#[derive(Args, Debug)]
pub struct BenchVmArgs {
    /// The CNI plugins of others: ipoib, ib-sriov, rdma
    #[arg(long, value_name = "FOLDER")]
    peers: PathBuf,
    /// The kernel series, of Debian's packages
    #[arg(long, value_name = "SERIES", default_value = "6.1")]
    kernel: String,
}

/// The guest's cases, and what they are called here.
const CASES: [(&str, &str); 7] = [
    ("version", "VERSION"),
    ("ipoib", "ipoib"),
    ("sriov", "ib-sriov"),
    ("sriov_guid", "ib-sriov, GUID"),
    ("sriov_isolated", "ib-sriov, isolated"),
    ("sriov_guid_isolated", "ib-sriov, GUID, isolated"),
    ("rdma", "rdma"),
];

/// The part of their time that an ADD of ours may take. Most of it is the kernel's for both (decision 48), and a tenth is
/// what two runs differ by.
const MAX_RATIO: f64 = 1.1;

/// Milliseconds by case, who, command.
type BenchTimes = BTreeMap<(String, String, String), Vec<f64>>;

/// Run both and print a table.
pub fn measure(args: &BenchVmArgs, verdict: &mut BudgetCheck) -> Result<()> {
    let lines = crate::vm::run_benchmark(&args.kernel, "bench-cni", &args.peers)?;
    for failed in lines.iter().filter(|line| line.starts_with("BENCH-FAILED")) {
        println!("  {failed}");
    }
    let times = parse_times(&lines);
    if times.is_empty() {
        bail!("the machine measured nothing");
    }
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("  kernel {}, load of the host {}", args.kernel, load.split(' ').next().unwrap_or_default());
    println!("  {:<26} {:<8} {:>22} {:>22}", "median ms (least-most)", "", "ours", "theirs");
    for (case, title) in CASES {
        for command in ["VERSION", "ADD", "DEL"] {
            let of = |who: &str| times.get(&(case.to_owned(), who.to_owned(), command.to_owned()));
            let (ours, theirs) = (of("ours"), of("theirs"));
            if ours.is_none() && theirs.is_none() {
                continue;
            }
            println!("  {title:<26} {command:<8} {:>22} {:>22}", format_times(ours), format_times(theirs));
            if let (Some(ours), Some(theirs), "ADD") = (ours, theirs, command) {
                let most = median(theirs) * MAX_RATIO;
                verdict.at_most(&format!("{title}: ADD"), median(ours), most, "ms");
            }
        }
    }
    Ok(())
}

/// Reads `BENCH CASE WHO COMMAND MILLISECONDS`.
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
    fn lines_of_the_guest_become_times() {
        let lines = [
            "BENCH ipoib ours ADD 13.0",
            "BENCH ipoib ours ADD 11.0",
            "BENCH-FAILED rdma ours ADD: x",
            "BENCH x",
        ];
        let times = parse_times(&lines.map(str::to_owned));
        assert_eq!(times.len(), 1);
        let ours = &times[&("ipoib".to_owned(), "ours".to_owned(), "ADD".to_owned())];
        assert!((median(ours) - 12.0).abs() < 1e-9);
        assert_eq!(format_times(Some(ours)), "12 (11-13)");
        assert_eq!(format_times(None), "-");
    }
}
