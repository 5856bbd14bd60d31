//! Prints the result of a command as a table, JSON or YAML.

use clap::ValueEnum;
use serde::Serialize;
use std::io::{Write, stdout};

/// Value of `--output`: how a command prints its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Table with the most important columns.
    Table,
    /// Table with all columns.
    Wide,
    /// All fields, as JSON.
    Json,
    /// All fields, as YAML.
    Yaml,
}

/// Value of `--output` of commands that have no wide table.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum NarrowFormat {
    /// Table for reading in a terminal.
    Table,
    /// All fields, as JSON.
    Json,
    /// All fields, as YAML.
    Yaml,
}

impl From<NarrowFormat> for OutputFormat {
    fn from(format: NarrowFormat) -> Self {
        match format {
            NarrowFormat::Table => Self::Table,
            NarrowFormat::Json => Self::Json,
            NarrowFormat::Yaml => Self::Yaml,
        }
    }
}

/// Prints `value` as JSON or YAML, or prints the table that `columns` returns.
pub fn print(
    output: impl Into<OutputFormat>,
    value: &impl Serialize,
    columns: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    let text = match output.into() {
        OutputFormat::Table | OutputFormat::Wide => columns(),
        OutputFormat::Yaml => serde_saphyr::to_string(value)?,
        OutputFormat::Json => format!("{}\n", serde_json::to_string_pretty(value)?),
    };
    stdout().write_all(text.as_bytes())?;
    Ok(())
}
