//! One run of the program: read the call, carry it out, answer.

use crate::protocol::{self, Command, Invocation, Variables};
use crate::{Config, Error, Machine, Role, Version, add, check, del, gc, leave, status};
use std::io::{Read, Write};

/// Carry out one call on `machine`. What a runtime reads goes to `out`; the error is for [`answer`] to tell.
pub fn run(machine: &Machine<'_>, role: Role, call: &Invocation, out: &mut dyn Write) -> Result<(), Error> {
    match call.command {
        Command::Add => add::add(machine, role, call, out),
        Command::Del => del::del(machine, role, call).inspect(|()| leave(machine)),
        Command::Check => check::check(machine, role, call),
        Command::Gc => gc::gc(machine, role, call).inspect(|()| leave(machine)),
        Command::Status => status::status(machine, role, call),
        Command::Version => Ok(()),
    }
}

/// The last attachment of a node that is being left takes us with it.
fn leave(machine: &Machine<'_>) {
    // The sandbox is gone, whatever becomes of our files.
    if let Err(error) = leave::finish(machine.root) {
        eprintln!("ferroband: leaving this node: {error}");
    }
}

/// Serve the call of `variables` and `stdin` as `role`, and answer it. `carry_out` does the work: the machine is
/// looked at only for calls that are in order. Returns the exit status.
pub fn answer(
    role: Role,
    variables: &Variables,
    stdin: &mut dyn Read,
    out: &mut dyn Write,
    carry_out: impl FnOnce(&Invocation, &mut dyn Write) -> Result<(), Error>,
) -> u8 {
    let mut version = Version::NEWEST;
    let served = variables.command().and_then(|command| match command {
        None => {
            eprintln!("{}\nCNI versions: {}", role.about(), Version::listed());
            Ok(())
        }
        Some(Command::Version) => print(out, &protocol::versions()),
        Some(command) => {
            let mut bytes = Vec::new();
            // What cannot be read whole fails again, and is told, when the call is read.
            let read = stdin.read_to_end(&mut bytes);
            let told = Config::parse(bytes.clone()).and_then(|config| config.version());
            version = told.unwrap_or(version);
            read.map_err(|source| Error::Stdin { source })?;
            let call = Invocation::read(command, variables, &mut bytes.as_slice())?;
            carry_out(&call, out)
        }
    });
    match served {
        Ok(()) => 0,
        Err(error) => {
            // Nobody is left to tell if this fails too.
            let _ = print(out, &protocol::failure(&error, version));
            1
        }
    }
}

fn print(out: &mut dyn Write, text: &str) -> Result<(), Error> {
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|source| Error::Stdout { source })
}
