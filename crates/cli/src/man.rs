//! `ferroband man`.

use crate::arguments::Arguments;
use anyhow::Context;
use clap::{Args, CommandFactory};
use std::path::PathBuf;

/// Write the manual pages
///
/// One page for each subcommand: `ferroband man --dir /usr/local/share/man/man1`
#[derive(Args, Debug)]
pub struct ManCommand {
    /// The folder they are written to.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    dir: PathBuf,
}

impl ManCommand {
    /// Write them.
    pub fn run(self) -> anyhow::Result<()> {
        clap_mangen::generate_to(Arguments::command(), &self.dir)
            .with_context(|| format!("cannot write manual pages to {}", self.dir.display()))
    }
}
