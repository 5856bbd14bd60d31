//! `cargo xtask bench …`: resource usage and performance, compared with budgets.
//!
//! ```text
//! bench WHAT ── a separate lab, as in `test cluster` ──▶ figures on standard output ──▶ BudgetCheck:
//!                                                               exit code 1 if a budget is exceeded
//! ```
//!
//! Budgets are those of the design. All figures are printed, within budget or not.

mod address;
mod node;
mod scale;
mod vm;

use anyhow::Result;
use clap::Subcommand;
use std::fmt::Display;

/// What to measure.
#[derive(Subcommand, Debug)]
pub enum BenchCommand {
    /// Memory of an idle node daemon with 8 adapters and 128 virtual functions
    Node(node::BenchNodeArgs),
    /// ADD and DEL of the CNI plugins compared with upstream ones, in an emulated machine with InfiniBand
    Vm(vm::BenchVmArgs),
    /// Addresses assigned per second through the plugin
    Address(address::BenchAddressArgs),
    /// Requests, watch deliveries and load of the leader with many nodes
    Scale(scale::BenchScaleArgs),
}

/// Runs a benchmark; returns exit code 1 if a budget is exceeded.
pub fn bench(what: &BenchCommand) -> Result<i32> {
    let mut budget = BudgetCheck::default();
    match what {
        BenchCommand::Node(args) => node::measure(args, &mut budget)?,
        BenchCommand::Vm(args) => vm::measure(args, &mut budget)?,
        BenchCommand::Address(args) => address::measure(args, &mut budget)?,
        BenchCommand::Scale(args) => return scale::measure(args),
    }
    Ok(budget.exit_code())
}

/// Prints figures and counts those outside their budgets.
#[derive(Debug, Default)]
pub struct BudgetCheck {
    exceeded: usize,
}

impl BudgetCheck {
    /// Prints a figure without a budget.
    pub fn figure(&self, what: &str, value: impl Display) {
        println!("  {what}: {value}");
    }

    /// Prints a figure that must not exceed `most`.
    pub fn at_most(&mut self, what: &str, value: f64, most: f64, unit: &str) {
        let within_budget = value <= most;
        self.exceeded += usize::from(!within_budget);
        let relation = if within_budget { "within" } else { "ABOVE" };
        println!("  {what}: {value:.1} {unit}, {relation} the budget of {most:.1} {unit}");
    }

    /// Prints a figure that must not be below `least`.
    pub fn at_least(&mut self, what: &str, value: f64, least: f64, unit: &str) {
        let within_budget = value >= least;
        self.exceeded += usize::from(!within_budget);
        let relation = if within_budget { "meets" } else { "MISSES" };
        println!("  {what}: {value:.1} {unit}, {relation} the budget of {least:.1} {unit}");
    }

    fn exit_code(&self) -> i32 {
        i32::from(self.exceeded > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::BudgetCheck;

    #[test]
    fn one_figure_above_its_budget_fails_the_run() {
        let mut budget = BudgetCheck::default();
        budget.at_most("memory", 20.0, 20.0, "MB");
        assert_eq!(budget.exit_code(), 0);
        budget.at_most("memory", 20.1, 20.0, "MB");
        budget.at_most("memory", 1.0, 20.0, "MB");
        assert_eq!(budget.exit_code(), 1);
    }
}
