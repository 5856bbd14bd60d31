//! One run of the program: read the call, carry it out, answer.

use crate::protocol::{self, CniCommand, CniEnvironment, Invocation};
use crate::{CniContext, CniVersion, Error, PluginConfig, PluginType, add, check, del, gc, leave, status};
use std::io::{Read, Write};

/// Carry out one call on `machine`. What a runtime reads goes to `out`; the error is for [`answer`] to tell.
pub fn run(
    machine: &CniContext<'_>,
    role: PluginType,
    call: &Invocation,
    out: &mut dyn Write,
) -> Result<(), Error> {
    match call.command {
        CniCommand::Add => add::add(machine, role, call, out),
        CniCommand::Del => del::del(machine, role, call).inspect(|()| finish_uninstall(machine)),
        CniCommand::Check => check::check(machine, role, call),
        CniCommand::Gc => gc::gc(machine, role, call).inspect(|()| finish_uninstall(machine)),
        CniCommand::Status => status::status(machine, role, call),
        CniCommand::Version => Ok(()),
    }
}

/// The last attachment of a node that is being left takes us with it.
fn finish_uninstall(machine: &CniContext<'_>) {
    // The sandbox is gone, whatever becomes of our files.
    if let Err(error) = leave::finish_if_idle(machine.root) {
        eprintln!("ferroband: leaving this node: {error}");
    }
}

/// Serve the call of `variables` and `stdin` as `role`, and answer it. `carry_out` does the work: the machine is
/// looked at only for calls that are in order. Returns the exit status.
pub fn serve_call(
    role: PluginType,
    variables: &CniEnvironment,
    stdin: &mut dyn Read,
    out: &mut dyn Write,
    carry_out: impl FnOnce(&Invocation, &mut dyn Write) -> Result<(), Error>,
) -> u8 {
    let mut version = CniVersion::NEWEST;
    let served = variables.command().and_then(|command| match command {
        None => {
            eprintln!("{}\nCNI versions: {}", role.description(), CniVersion::supported_list());
            Ok(())
        }
        Some(CniCommand::Version) => write_stdout(out, &protocol::version_reply()),
        Some(command) => {
            let mut bytes = Vec::new();
            // What cannot be read whole fails again, and is told, when the call is read.
            let read = stdin.read_to_end(&mut bytes);
            let told = PluginConfig::parse(bytes.clone()).and_then(|config| config.version());
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
            let _ = write_stdout(out, &protocol::error_reply(&error, version));
            1
        }
    }
}

fn write_stdout(out: &mut dyn Write, text: &str) -> Result<(), Error> {
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|source| Error::Stdout { source })
}
