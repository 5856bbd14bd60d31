//! `ferroband sim status`, and the list of hardware profiles that `ferroband sim profile` prints.

use crate::output::{NarrowFormat, print};
use crate::table::{render, table};
use clap::Args;
use ferroband_kernel::Root;
use ferroband_sim::{Profile, Simulation, SimulationReport};
use serde_json::json;

/// `ferroband sim status`
#[derive(Args, Debug)]
pub struct SimStatusCommand {
    /// Output format of the state of the simulation.
    #[arg(short, long, value_enum, default_value_t = NarrowFormat::Table)]
    output: NarrowFormat,
}

impl SimStatusCommand {
    pub fn print(&self, root: &Root) -> anyhow::Result<()> {
        let report = Simulation::report(root).map_err(|e| e.fault())?;
        print(self.output, &json!({ "up": report }), || {
            report.as_ref().map_or_else(|| "down\n".to_owned(), render_table)
        })
    }
}

fn render_table(report: &SimulationReport) -> String {
    let mut rows = table(["ADAPTER", "PCI", "NETDEV", "SLOT", "PORTS", "VFS"]);
    for adapter in &report.adapters {
        let ports: Vec<String> =
            adapter.ports.iter().map(|state| format!("{state:?}").to_lowercase()).collect();
        rows.add_row([
            adapter.rdma.clone(),
            adapter.pci.to_string(),
            adapter.netdevs.join(","),
            if adapter.plugged { "plugged" } else { "empty" }.to_owned(),
            ports.join(","),
            format!("{}/{}", adapter.vfs, adapter.total_vfs),
        ]);
    }
    let uplink = report.uplink.as_deref().unwrap_or("none");
    format!(
        "up: profile {}, seed {}, uplink {uplink}, RDMA namespaces {}\n{}",
        report.profile,
        report.seed,
        report.netns_mode,
        render(rows)
    )
}

/// Renders the list of built-in profiles, which `ferroband sim profile` prints.
pub fn render_profiles() -> String {
    let mut rows = table(["PROFILE", "ADAPTERS", "CHIP", "LINK", "GPUS"]);
    for profile in Profile::builtins() {
        let first = profile.hcas.first();
        rows.add_row([
            profile.name.clone(),
            profile.hcas.len().to_string(),
            first.map(|hca| hca.model.clone()).unwrap_or_default(),
            first.map(|hca| hca.link_layer().to_string()).unwrap_or_default(),
            profile.gpus.len().to_string(),
        ]);
    }
    render(rows)
}
