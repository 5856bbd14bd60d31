//! `ferroband completions`: prints a completion script for a shell.

use crate::arguments::Arguments;
use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};
use std::io::{Write, stdout};

/// Print shell completions
///
/// For bash: `ferroband completions bash > /etc/bash_completion.d/ferroband`
#[derive(Args, Debug)]
pub struct CompletionsCommand {
    /// Shell for which the completion script is printed.
    shell: Shell,
}

impl CompletionsCommand {
    pub fn run(self) -> anyhow::Result<()> {
        let mut script = Vec::new();
        generate(self.shell, &mut Arguments::command(), "ferroband", &mut script);
        stdout().write_all(&script)?;
        Ok(())
    }
}
