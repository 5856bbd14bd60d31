//! `ferroband man`: writes the manual pages.

use crate::arguments::Arguments;
use anyhow::Context;
use clap::{Args, CommandFactory};
use std::path::PathBuf;

/// Write the manual pages
///
/// Writes one page for each subcommand: `ferroband man --dir /usr/local/share/man/man1`
#[derive(Args, Debug)]
pub struct ManCommand {
    /// Existing directory to which the manual pages are written.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    dir: PathBuf,
}

impl ManCommand {
    pub fn run(self) -> anyhow::Result<()> {
        clap_mangen::generate_to(Arguments::command(), &self.dir)
            .with_context(|| format!("cannot write manual pages to {}", self.dir.display()))
    }
}
