//! Generates `commands.md`, the reference of commands and flags, from the clap definitions.

use super::{markdown_table, page_header};
use crate::arguments::Arguments;
use clap::{Arg, ArgAction, Command, CommandFactory};

pub fn page() -> String {
    let mut command = Arguments::command();
    command.build();
    let mut text = page_header(
        "Commands",
        "Every command accepts `--log FILTER` and `--help`. A variable in brackets is an alternative to the flag.",
    );
    for below in command.get_subcommands() {
        describe(below, "ferroband", &mut text);
    }
    text
}

fn describe(command: &Command, above: &str, text: &mut String) {
    if command.is_hide_set() || command.get_name() == "help" {
        return;
    }
    let name = format!("{above} {}", command.get_name());
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    text.push_str(&format!("\n## {name}\n\n{about}\n"));
    let shown = |argument: &&Arg| {
        !argument.is_hide_set() && !["help", "version", "log"].contains(&argument.get_id().as_str())
    };
    let rows: Vec<_> = command.get_arguments().filter(shown).map(row).collect();
    if !rows.is_empty() {
        text.push('\n');
        text.push_str(&markdown_table(["Argument", "Meaning", "Default"], rows));
    }
    command.get_subcommands().for_each(|below| describe(below, &name, text));
}

fn row(argument: &Arg) -> [String; 3] {
    let value = argument
        .get_value_names()
        .into_iter()
        .flatten()
        .map(|name| name.to_string())
        .collect::<Vec<_>>()
        .join(" ");
    let takes = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
    let name = match (argument.get_long(), argument.get_short()) {
        (Some(long), Some(short)) => format!("-{short}, --{long}"),
        (Some(long), None) => format!("--{long}"),
        (None, Some(short)) => format!("-{short}"),
        (None, None) => String::new(),
    };
    let name = match (name.is_empty(), takes) {
        (true, _) => value,
        (false, true) => format!("{name} {value}"),
        (false, false) => name,
    };
    let mut about = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let values: Vec<_> =
        argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    if !about.is_empty() && !about.ends_with('.') {
        about.push('.');
    }
    if takes && !values.is_empty() {
        about.push_str(&format!(" One of {}.", values.join(", ")));
    }
    if let Some(variable) = argument.get_env() {
        about.push_str(&format!(" [{}]", variable.to_string_lossy()));
    }
    let default: Vec<_> = argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let default =
        if takes && !default.is_empty() { format!("`{}`", default.join(",")) } else { String::new() };
    [format!("`{name}`"), about, default]
}
