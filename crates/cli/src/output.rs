//! The forms of output that all lists share.

use clap::ValueEnum;
use serde::Serialize;
use std::io::{Write, stdout};

/// A form of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Columns, for people.
    Table,
    /// More columns.
    Wide,
    /// Everything that is known, for programs.
    Json,
    /// The same as YAML.
    Yaml,
}

/// Print `value` for programs, or what `columns` makes of it for people.
pub fn print(
    output: OutputFormat,
    value: &impl Serialize,
    columns: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    let shown = match output {
        OutputFormat::Table | OutputFormat::Wide => columns(),
        OutputFormat::Yaml => serde_saphyr::to_string(value)?,
        OutputFormat::Json => format!("{}\n", serde_json::to_string_pretty(value)?),
    };
    stdout().write_all(shown.as_bytes())?;
    Ok(())
}
