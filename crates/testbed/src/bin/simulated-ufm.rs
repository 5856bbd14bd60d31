//! A simulated UFM for a lab. Writes its partitions to the lab's simulated ports until the lab is deleted.
//!
//! ```text
//! simulated-ufm ADDRESS:PORT NETNS OBJECTS -- XTASK lab --name LAB exec -- NODE…
//!               listen address      file for the Kubernetes objects, written once it listens
//! ```
//!
//! Only `cargo xtask lab up --ufm` starts it, so the arguments are positional.

use anyhow::{Context, Result, bail};
use ferroband_testbed::pkey_table_writer::PKeyTableWriter;
use ferroband_testbed::ufm::{UfmSimulator, UfmSimulatorOptions};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs, thread};

/// Interval of the check whether the lab still exists.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let parts: Vec<&[String]> = arguments.split(|word| word == "--").collect();
    let [[listen, netns, objects], exec, nodes] = parts[..] else {
        bail!("invalid arguments: start this program with `cargo xtask lab up --ufm`");
    };
    let [program, program_arguments @ ..] = exec else { bail!("no command after the first `--`") };
    let netns = PathBuf::from(netns);
    let listen =
        listen.parse().with_context(|| format!("listen address {listen} is not of the form ADDRESS:PORT"))?;
    let ufm = Arc::new(UfmSimulator::start(UfmSimulatorOptions::from_document(listen, netns.clone())?)?);
    let manifest = ufm.kubernetes_objects().to_string();
    let writer = |node: &String| {
        let mut command = Command::new(program);
        command.args(program_arguments).args([node, "--", "ferroband", "sim", "fabric"]);
        command
    };
    let table_writer = PKeyTableWriter::start(ufm, nodes.iter().map(writer).collect())?;
    fs::write(objects, manifest)
        .with_context(|| format!("cannot write the Kubernetes objects to {objects}"))?;
    while netns.exists() {
        thread::sleep(POLL_INTERVAL);
    }
    drop(table_writer);
    Ok(())
}
