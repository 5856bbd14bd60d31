//! A simulated UFM beside a lab, whose partitions are written to the lab's simulated ports, until the lab is gone.
//!
//! ```text
//! simulated-ufm ADDRESS:PORT NETNS CERTIFICATE -- XTASK lab --name LAB exec -- NODE…
//!               where it listens    its own, written once it does
//! ```
//!
//! Only `cargo xtask lab up --ufm` starts it; so it takes its words as they come.

use anyhow::{Context, Result, bail};
use ferroband_testbed::painter::Painter;
use ferroband_testbed::ufm::{Identity, Manners, Simulator, Start};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs, thread};

/// How often it is looked whether the lab is still there.
const LOOK: Duration = Duration::from_millis(500);

fn main() -> Result<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    let parts: Vec<&[String]> = words.split(|word| word == "--").collect();
    let [[listen, netns, certificate], exec, nodes] = parts[..] else {
        bail!("only `cargo xtask lab up --ufm` knows how to start this");
    };
    let [program, arguments @ ..] = exec else { bail!("no program to reach the nodes with") };
    let netns = PathBuf::from(netns);
    // The document's openssl command leaves the address as it is written in it.
    let identity = Identity::common_name("${UFM_ADDRESS}")?;
    let pin = identity.certificate.clone();
    let ufm = Simulator::start(Start {
        listen: listen.parse().with_context(|| format!("not an address: {listen}"))?,
        netns: Some(netns.clone()),
        identity: Some(identity),
        manners: Manners { user: ("admin".into(), "12345".into()), ..Manners::default() },
        ..Start::default()
    })?;
    let ufm = Arc::new(ufm);
    let writer = |node: &String| {
        let mut command = Command::new(program);
        command.args(arguments).args([node, "--", "ferroband", "sim", "fabric"]);
        command
    };
    let painter = Painter::start(ufm, nodes.iter().map(writer).collect())?;
    fs::write(certificate, pin).with_context(|| format!("cannot write {certificate}"))?;
    while netns.exists() {
        thread::sleep(LOOK);
    }
    drop(painter);
    Ok(())
}
