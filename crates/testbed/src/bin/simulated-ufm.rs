//! A simulated UFM beside a lab, whose partitions are written to the lab's simulated ports, until the lab is gone.
//!
//! ```text
//! simulated-ufm ADDRESS:PORT NETNS OBJECTS -- XTASK lab --name LAB exec -- NODE…
//!               where it listens    what tells a cluster of it, written once it does
//! ```
//!
//! Only `cargo xtask lab up --ufm` starts it; so it takes its words as they come.

use anyhow::{Context, Result, bail};
use ferroband_testbed::pkey_table_writer::PKeyTableWriter;
use ferroband_testbed::ufm::{UfmSimulator, UfmSimulatorOptions};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs, thread};

/// How often it is looked whether the lab is still there.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

fn main() -> Result<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    let parts: Vec<&[String]> = words.split(|word| word == "--").collect();
    let [[listen, netns, objects], exec, nodes] = parts[..] else {
        bail!("only `cargo xtask lab up --ufm` knows how to start this");
    };
    let [program, arguments @ ..] = exec else { bail!("no program to reach the nodes with") };
    let netns = PathBuf::from(netns);
    let listen = listen.parse().with_context(|| format!("not an address: {listen}"))?;
    let ufm = Arc::new(UfmSimulator::start(UfmSimulatorOptions::from_document(listen, netns.clone())?)?);
    let told = ufm.kubernetes_objects().to_string();
    let writer = |node: &String| {
        let mut command = Command::new(program);
        command.args(arguments).args([node, "--", "ferroband", "sim", "fabric"]);
        command
    };
    let painter = PKeyTableWriter::start(ufm, nodes.iter().map(writer).collect())?;
    fs::write(objects, told).with_context(|| format!("cannot write {objects}"))?;
    while netns.exists() {
        thread::sleep(POLL_INTERVAL);
    }
    drop(painter);
    Ok(())
}
