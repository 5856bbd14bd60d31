//! `cargo xtask bench …`: what the product costs, measured, against its budget.
//!
//! ```text
//! bench WHAT ── a lab of its own, as `test cluster` has ──▶ figures on standard output ──▶ Verdict
//!                                                                                           exit code 1 above a budget
//! ```
//!
//! Each budget is one of the design's; a figure is printed whether it is kept or not.

mod address;
mod node;
mod vm;

use anyhow::Result;
use clap::Subcommand;
use std::fmt::Display;

/// What is measured.
#[derive(Subcommand, Debug)]
pub enum Bench {
    /// Memory of an idle node daemon with 8 adapters and 128 virtual functions
    Node(node::Node),
    /// ADD and DEL of the CNI plugins beside those of others, in an emulated machine with InfiniBand
    Vm(vm::Vm),
    /// Addresses assigned a second, through the plugin
    Address(address::Address),
}

/// Measure; the exit code says whether the budgets are kept.
pub fn bench(what: &Bench) -> Result<i32> {
    let mut verdict = Verdict::default();
    match what {
        Bench::Node(args) => node::measure(args, &mut verdict)?,
        Bench::Vm(args) => vm::measure(args, &mut verdict)?,
        Bench::Address(args) => address::measure(args, &mut verdict)?,
    }
    Ok(verdict.close())
}

/// Figures, and whether they are within their budgets.
#[derive(Debug, Default)]
pub struct Verdict {
    above: usize,
}

impl Verdict {
    /// A figure without a budget.
    pub fn figure(&self, what: &str, value: impl Display) {
        println!("  {what}: {value}");
    }

    /// A figure that must not be above `most`.
    pub fn at_most(&mut self, what: &str, value: f64, most: f64, unit: &str) {
        let kept = value <= most;
        self.above += usize::from(!kept);
        let said = if kept { "within" } else { "ABOVE" };
        println!("  {what}: {value:.1} {unit}, {said} the budget of {most:.1} {unit}");
    }

    /// A figure that must not be below `least`.
    pub fn at_least(&mut self, what: &str, value: f64, least: f64, unit: &str) {
        let kept = value >= least;
        self.above += usize::from(!kept);
        let said = if kept { "keeps" } else { "MISSES" };
        println!("  {what}: {value:.1} {unit}, {said} the budget of {least:.1} {unit}");
    }

    fn close(&self) -> i32 {
        i32::from(self.above > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict;

    #[test]
    fn one_figure_above_its_budget_spoils_the_run() {
        let mut verdict = Verdict::default();
        verdict.at_most("memory", 20.0, 20.0, "MB");
        assert_eq!(verdict.close(), 0);
        verdict.at_most("memory", 20.1, 20.0, "MB");
        verdict.at_most("memory", 1.0, 20.0, "MB");
        assert_eq!(verdict.close(), 1);
    }
}
