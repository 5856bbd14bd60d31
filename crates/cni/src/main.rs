//! `ferroband-cni`: one file, many names. The name it is started by says which CNI plugin it is.

use ferroband_attach::{
    Error, Invocation, Machine, Role, Signals, Unbroken, Variables, Version, answer, protocol, run, unbroken,
};
use ferroband_kernel::{Hardware, Root};
use std::ffi::OsString;
use std::io::{Write, stdin, stdout};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    let program = PathBuf::from(arguments.next().unwrap_or_default());
    let role = Role::of_program(&program);
    match arguments.next().as_ref().and_then(|argument| argument.to_str()) {
        Some("-V" | "--version") => return say(&about(role)),
        Some("-h" | "--help") => return say(&help(role)),
        Some(unbroken::ARGUMENT) => return detached(arguments.next()),
        _ => {}
    }
    let Some(role) = role else {
        let error = Error::UnknownProgram { program: program.display().to_string() };
        say(&protocol::failure(&error, Version::NEWEST));
        return ExitCode::FAILURE;
    };
    let variables = Variables::of_process();
    answer(role, &variables, &mut stdin().lock(), &mut stdout().lock(), |call, out| {
        carry_out(role, call, out)
    })
    .into()
}

fn carry_out(role: Role, call: &Invocation, out: &mut dyn Write) -> Result<(), Error> {
    // Without them a signal ends us like a kill, which the journal is for.
    let signals = Signals::hold().ok();
    let stop = || signals.as_ref().is_some_and(Signals::stop);
    let root = Root::default();
    let hardware = hardware(&root)?;
    // Even if the file has been replaced since we started.
    let detached = Some(Path::new("/proc/self/exe"));
    let machine = Machine { stop: &stop, detached, ..Machine::with_hardware(&root, hardware.as_ref()) };
    run(&machine, role, call, out)
}

/// Do what the process that started us must not do itself, because somebody may kill it meanwhile.
fn detached(work: Option<OsString>) -> ExitCode {
    let _signals = Signals::hold().ok();
    let root = Root::default();
    let work = work.unwrap_or_default();
    let done = hardware(&root).and_then(|hardware| {
        let sandbox = stdin().as_fd().try_clone_to_owned().map_err(|source| Error::Stdin { source })?;
        Unbroken::perform_detached(&work.to_string_lossy(), &root, hardware.as_ref(), sandbox)
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&unbroken::failure(&error));
            ExitCode::FAILURE
        }
    }
}

fn hardware(root: &Root) -> Result<Box<dyn Hardware>, Error> {
    ferroband_sim::hardware(root).map_err(|error| Error::Told(error.fault()))
}

fn about(role: Option<Role>) -> String {
    let role = role.unwrap_or(Role::Ferroband);
    format!("{role} {}\nCNI versions: {}\n", env!("CARGO_PKG_VERSION"), Version::listed())
}

fn help(role: Option<Role>) -> String {
    let names = Role::ALL.map(|role| format!("  {:<12} {}\n", role.as_str(), role.about())).concat();
    format!(
        "{}\nA CNI plugin: a container runtime starts it with CNI_COMMAND and a configuration on standard input.\n\
         Which plugin it is depends on the name of the file:\n\n{names}",
        about(role)
    )
}

fn say(text: &str) -> ExitCode {
    match stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
