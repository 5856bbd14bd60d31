//! `kubectl ferroband`: kubectl runs the program `kubectl-ferroband`, and `kubectl_complete-ferroband` for completions.
//! Both are links to this program.

use crate::arguments::Arguments;
use clap::{Command, CommandFactory, FromArgMatches};
use std::ffi::OsString;
use std::path::Path;

/// Parses the arguments. Help and errors show `kubectl ferroband` if kubectl runs the program.
pub fn parse_arguments() -> Arguments {
    let mut command = Arguments::command();
    if program_name() == "kubectl-ferroband" {
        command = command.bin_name("kubectl ferroband");
    }
    let parsed = command.clone().get_matches();
    Arguments::from_arg_matches(&parsed).unwrap_or_else(|error| error.format(&mut command).exit())
}

/// If kubectl calls the program for completions, prints them in the format of kubectl (cobra) and returns
/// true.
pub fn handle_completion() -> bool {
    if program_name() != "kubectl_complete-ferroband" {
        return false;
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    for candidate in candidates(Arguments::command(), &words) {
        println!("{candidate}");
    }
    // The last line is cobra's ShellCompDirectiveNoFileComp: the shell must not add file names.
    println!(":4");
    true
}

fn program_name() -> String {
    let zeroth: OsString = std::env::args_os().next().unwrap_or_default();
    Path::new(&zeroth).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the completions of the last word, each with its description after a tab. The other words select
/// the subcommand.
fn candidates(mut command: Command, words: &[String]) -> Vec<String> {
    command.build();
    let (last, before) = words.split_last().map_or(("", words), |(last, before)| (last.as_str(), before));
    let mut here = &command;
    for word in before {
        if let Some(below) = here.find_subcommand(word) {
            here = below;
        }
    }
    let mut all: Vec<(String, String)> = Vec::new();
    let described =
        |text: Option<String>| text.unwrap_or_default().lines().next().unwrap_or_default().to_owned();
    if last.starts_with('-') {
        for argument in here.get_arguments().filter(|argument| !argument.is_hide_set()) {
            let about = described(argument.get_help().map(ToString::to_string));
            all.extend(argument.get_long().map(|long| (format!("--{long}"), about)));
        }
    } else {
        let visible = here.get_subcommands().filter(|below| !below.is_hide_set());
        all.extend(visible.map(|below| {
            (below.get_name().to_owned(), described(below.get_about().map(ToString::to_string)))
        }));
        for argument in here.get_positionals() {
            let values = argument.get_possible_values();
            all.extend(
                values
                    .iter()
                    .map(|v| (v.get_name().to_owned(), described(v.get_help().map(ToString::to_string)))),
            );
        }
    }
    let fits = all.into_iter().filter(|(name, _)| name.starts_with(last));
    fits.map(|(name, about)| format!("{name}\t{about}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(words: &[&str]) -> Vec<String> {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        let found = candidates(Arguments::command(), &words);
        found.iter().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn commands_values_and_flags_are_completed() {
        assert!(names(&[""]).contains(&"status".to_owned()));
        assert_eq!(names(&["st"]), ["status"]);
        assert_eq!(names(&["status", "no"]), ["nodes"]);
        assert_eq!(names(&["crds", ""]), ["apply", "print", "help"]);
        assert!(names(&["status", "--"]).contains(&"--namespace".to_owned()));
        assert!(names(&["nonsense", "zzz"]).is_empty());
    }
}
