//! `ferroband-scale`: the parts of `cargo xtask bench scale` that link the daemons' code.

use anyhow::Result;
use clap::{Parser, Subcommand};
use ferroband_scale::leader::{ClusterSize, measure_leader, serve_api};
use ferroband_scale::members::run_commands;
use ferroband_scale::model::{ModelScenario, run_scenario};
use std::path::PathBuf;
use std::time::Duration;

/// Measures Ferroband at scale; prints one line of JSON per result.
#[derive(Parser, Debug)]
#[command(name = "ferroband-scale", version, arg_required_else_help = true)]
struct ScaleCli {
    #[command(subcommand)]
    part: ScalePart,
}

#[derive(Subcommand, Debug)]
enum ScalePart {
    /// Model of many nodes that start pods at once, on a simulated clock
    Model {
        /// Numbers of nodes
        #[arg(long, value_delimiter = ',', default_value = "1000,2000,5000,10000")]
        nodes: Vec<usize>,
        /// Seed of the latencies
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Members against the API server in KUBECONFIG, controlled by lines on standard input
    Members,
    /// An empty API server in memory, to try `members` without a lab
    Api {
        /// File to write its kubeconfig to
        #[arg(long, value_name = "FILE")]
        kubeconfig: PathBuf,
    },
    /// Load of the leader of a large cluster
    Leader {
        /// The program `ferroband`
        #[arg(long, value_name = "FILE")]
        program: PathBuf,
        #[arg(long, default_value_t = 10_000)]
        nodes: usize,
        /// Virtual functions, and so GUIDs, per node
        #[arg(long, default_value_t = 10)]
        functions: usize,
        /// Address blocks, each with 16 assigned addresses
        #[arg(long, default_value_t = 25_000)]
        blocks: usize,
        /// Seconds for the measurement of CPU time
        #[arg(long, value_name = "SECONDS", default_value_t = 60)]
        idle: u64,
    },
}

fn main() -> Result<()> {
    // Fails only if a provider is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match ScaleCli::parse().part {
        ScalePart::Model { nodes, seed } => {
            for count in nodes {
                for scenario in [ModelScenario::rails(count, seed)?, ModelScenario::tight(count, seed)?] {
                    println!("{}", serde_json::to_string(&run_scenario(&scenario)?)?);
                }
            }
            Ok(())
        }
        ScalePart::Members => multi_threaded()?.block_on(run_commands()),
        ScalePart::Api { kubeconfig } => multi_threaded()?.block_on(serve_api(&kubeconfig)),
        ScalePart::Leader { program, nodes, functions, blocks, idle } => {
            let size = ClusterSize { nodes, functions, blocks };
            let report =
                multi_threaded()?.block_on(measure_leader(&program, size, Duration::from_secs(idle)))?;
            println!("{}", serde_json::to_string(&report)?);
            Ok(())
        }
    }
}

fn multi_threaded() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}
