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
pub enum BenchCommand {
    /// Memory of an idle node daemon with 8 adapters and 128 virtual functions
    Node(node::BenchNodeArgs),
    /// ADD and DEL of the CNI plugins beside those of others, in an emulated machine with InfiniBand
    Vm(vm::BenchVmArgs),
    /// Addresses assigned a second, through the plugin
    Address(address::BenchAddressArgs),
}

/// Measure; the exit code says whether the budgets are kept.
pub fn bench(what: &BenchCommand) -> Result<i32> {
    let mut verdict = BudgetCheck::default();
    match what {
        BenchCommand::Node(args) => node::measure(args, &mut verdict)?,
        BenchCommand::Vm(args) => vm::measure(args, &mut verdict)?,
        BenchCommand::Address(args) => address::measure(args, &mut verdict)?,
    }
    Ok(verdict.exit_code())
}

/// Figures, and whether they are within their budgets.
#[derive(Debug, Default)]
pub struct BudgetCheck {
    exceeded: usize,
}

impl BudgetCheck {
    /// A figure without a budget.
    pub fn figure(&self, what: &str, value: impl Display) {
        println!("  {what}: {value}");
    }

    /// A figure that must not be above `most`.
    pub fn at_most(&mut self, what: &str, value: f64, most: f64, unit: &str) {
        let kept = value <= most;
        self.exceeded += usize::from(!kept);
        let said = if kept { "within" } else { "ABOVE" };
        println!("  {what}: {value:.1} {unit}, {said} the budget of {most:.1} {unit}");
    }

    /// A figure that must not be below `least`.
    pub fn at_least(&mut self, what: &str, value: f64, least: f64, unit: &str) {
        let kept = value >= least;
        self.exceeded += usize::from(!kept);
        let said = if kept { "keeps" } else { "MISSES" };
        println!("  {what}: {value:.1} {unit}, {said} the budget of {least:.1} {unit}");
    }

    fn exit_code(&self) -> i32 {
        i32::from(self.exceeded > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::BudgetCheck;

    #[test]
    fn one_figure_above_its_budget_spoils_the_run() {
        let mut verdict = BudgetCheck::default();
        verdict.at_most("memory", 20.0, 20.0, "MB");
        assert_eq!(verdict.exit_code(), 0);
        verdict.at_most("memory", 20.1, 20.0, "MB");
        verdict.at_most("memory", 1.0, 20.0, "MB");
        assert_eq!(verdict.exit_code(), 1);
    }
}
