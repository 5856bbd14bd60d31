//! `ferroband sim fabric`: what a subnet manager does to the ports of this machine.

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

/// How often ports that have come meanwhile get their tables.
const SWEEP_INTERVAL: Duration = Duration::from_millis(250);

const AFTER_HELP: &str = "\
Each line is a JSON object, and stands for the whole fabric:
  {\"tables\": {\"02:00:00:00:00:00:0a:01\": [\"0x83e8\", \"0x7fff\"]}, \"others\": [\"0x7fff\"]}

Ends with its input; the tables stay as they are.";

/// Be the subnet manager: write the P_Key tables of all ports, as told on standard input
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct SimFabricCommand {}

/// Who is in which partition.
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
    /// Until the input ends.
    pub fn run(&self, root: &Root) -> anyhow::Result<()> {
        let (sender, lines) = channel();
        thread::spawn(move || stdin().lines().try_for_each(|line| sender.send(line)));
        let mut now: Option<SimulationChange> = None;
        loop {
            match lines.recv_timeout(SWEEP_INTERVAL) {
                Ok(line) => {
                    let told: FabricTablesLine =
                        serde_json::from_str(&line?).context("a line of the input")?;
                    now = Some(SimulationChange::SetFabricPKeys { tables: told.tables, others: told.others });
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            if let Some(change) = &now {
                Simulation::change(root, change).map_err(|e| e.fault()).context("writing the tables")?;
            }
        }
    }
}
