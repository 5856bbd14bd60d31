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

/// Prints `value` as JSON or YAML, or prints the table that `columns` returns.
pub fn print(
    output: OutputFormat,
    value: &impl Serialize,
    columns: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    let text = match output {
        OutputFormat::Table | OutputFormat::Wide => columns(),
        OutputFormat::Yaml => serde_saphyr::to_string(value)?,
        OutputFormat::Json => format!("{}\n", serde_json::to_string_pretty(value)?),
    };
    stdout().write_all(text.as_bytes())?;
    Ok(())
}
