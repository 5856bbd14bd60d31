//! One run of the program: defer signals, parse the call, run the command, print the reply.

use crate::commands::{add, check, del, gc, status};
use crate::protocol::invocation::{self, CniCommand, CniEnvironment, Invocation};
use crate::protocol::{CniContext, CniVersion, Error, PluginConfig, PluginType};
use crate::state::pending_uninstall;
use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::cell::Cell;
use std::io::{Read, Write};

/// Run one CNI call. The reply to the runtime goes to `out`; [`serve_call`] prints the error.
pub fn run(
    context: &CniContext<'_>,
    plugin_type: PluginType,
    call: &Invocation,
    out: &mut dyn Write,
) -> Result<(), Error> {
    match call.command {
        CniCommand::Add => add::add(context, plugin_type, call, out),
        CniCommand::Del => del::del(context, plugin_type, call).inspect(|()| finish_uninstall(context)),
        CniCommand::Check => check::check(context, plugin_type, call),
        CniCommand::Gc => gc::gc(context, plugin_type, call).inspect(|()| finish_uninstall(context)),
        CniCommand::Status => status::status(context, plugin_type, call),
        CniCommand::Version => Ok(()),
    }
}

/// Finish a pending uninstallation if no attachment is left.
fn finish_uninstall(context: &CniContext<'_>) {
    // A failure is only logged, because the sandbox has been deleted in any case.
    if let Err(error) = pending_uninstall::finish_if_idle(context.root) {
        eprintln!("ferroband: cannot finish the uninstallation from this node: {error}");
    }
}

/// Parse the call from `variables` and `stdin`, run it with `run_call` and print the reply. The node is accessed only
/// for valid calls. Returns the exit status.
pub fn serve_call(
    plugin_type: PluginType,
    variables: &CniEnvironment,
    stdin: &mut dyn Read,
    out: &mut dyn Write,
    run_call: impl FnOnce(&Invocation, &mut dyn Write) -> Result<(), Error>,
) -> u8 {
    let mut version = CniVersion::NEWEST;
    let result = variables.command().and_then(|command| match command {
        None => {
            eprintln!("{}\nCNI versions: {}", plugin_type.description(), CniVersion::supported_list());
            Ok(())
        }
        Some(CniCommand::Version) => write_stdout(out, &invocation::version_reply()),
        Some(command) => {
            let mut bytes = Vec::new();
            // A read error is reported below. The bytes read so far may contain the version for the error
            // reply.
            let read = stdin.read_to_end(&mut bytes);
            let parsed = PluginConfig::parse(bytes.clone()).and_then(|config| config.version());
            version = parsed.unwrap_or(version);
            read.map_err(|source| Error::Stdin { source })?;
            let call = Invocation::read(command, variables, &mut bytes.as_slice())?;
            run_call(&call, out)
        }
    });
    match result {
        Ok(()) => 0,
        Err(error) => {
            // If writing fails too, the error cannot be reported.
            let _ = write_stdout(out, &invocation::error_reply(&error, version));
            1
        }
    }
}

fn write_stdout(out: &mut dyn Write, text: &str) -> Result<(), Error> {
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|source| Error::Stdout { source })
}

/// SIGTERM, SIGINT and SIGHUP, blocked in this thread and the threads it starts.
///
/// A signal that ended the process at any instruction would leave half a step behind for the next DEL. Therefore
/// termination signals are blocked and checked between the steps of an ADD, which then rolls back; other commands run to
/// completion. Child plugins inherit the mask, so they are not interrupted either. `SIGKILL` cannot be blocked. After it,
/// DEL cleans up from the journal.
#[derive(Debug)]
pub struct DeferredSignals {
    pending: SignalFd,
    received: Cell<bool>,
}

impl DeferredSignals {
    /// Block the signals. Call this before starting any thread.
    pub fn block() -> Result<Self, Errno> {
        let mut set = SigSet::empty();
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
            set.add(signal);
        }
        set.thread_block()?;
        let pending = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self { pending, received: Cell::new(false) })
    }

    /// Whether one of the blocked signals has arrived since [`Self::block`].
    pub fn received(&self) -> bool {
        let received = self.received.get() || matches!(self.pending.read_signal(), Ok(Some(_)));
        self.received.set(received);
        received
    }
}

#[cfg(test)]
mod tests;
