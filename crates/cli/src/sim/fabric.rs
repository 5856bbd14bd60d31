//! `ferroband sim fabric`: acts as the subnet manager for the simulated ports of this host.

use anyhow::Context;
use clap::Args;
use ferroband_kernel::Root;
use ferroband_model::{Guid, PKey};
use ferroband_sim::{Simulation, SimulationChange};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::stdin;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// How often the P_Key tables of all ports are written again, so that new ports get their tables as well.
const SWEEP_INTERVAL: Duration = Duration::from_millis(250);

const AFTER_HELP: &str = "\
Each line of the input is a JSON object that describes the whole fabric:
  {\"tables\": {\"02:00:00:00:00:00:0a:01\": [\"0x83e8\", \"0x7fff\"]}, \"others\": [\"0x7fff\"]}

The command ends with its input; the tables are kept.";

/// Act as the subnet manager: write the P_Key tables of all ports, read from standard input
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct SimFabricCommand {}

/// One JSON line of standard input: P_Key tables by port GUID, and one P_Key table for all other ports.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FabricTablesLine {
    #[serde(default)]
    tables: BTreeMap<Guid, Vec<PKey>>,
    #[serde(default = "default_only")]
    others: Vec<PKey>,
}

fn default_only() -> Vec<PKey> {
    vec![PKey::DEFAULT]
}

impl SimFabricCommand {
    /// Applies each line of standard input, and applies the last line again every `SWEEP_INTERVAL`. Returns
    /// when standard input ends.
    pub fn run(&self, root: &Root) -> anyhow::Result<()> {
        let (sender, lines) = channel();
        thread::spawn(move || stdin().lines().try_for_each(|line| sender.send(line)));
        let mut current: Option<SimulationChange> = None;
        loop {
            match lines.recv_timeout(SWEEP_INTERVAL) {
                Ok(line) => {
                    let line: FabricTablesLine = serde_json::from_str(&line?)
                        .context("invalid line in the input; see `ferroband sim fabric --help`")?;
                    current =
                        Some(SimulationChange::SetFabricPKeys { tables: line.tables, others: line.others });
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            if let Some(change) = &current {
                Simulation::change(root, change)
                    .map_err(|e| e.fault())
                    .context("cannot write the P_Key tables")?;
            }
        }
    }
}
