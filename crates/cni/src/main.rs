//! `ferroband-cni`: one file, many names. The name it is started by says which CNI plugin it is.

use ferroband_attach::{
    CniContext, CniEnvironment, CniVersion, DeferredSignals, DeviceOp, Error, Invocation, PluginType,
    protocol, run, serve_call, unbroken,
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
    let role = PluginType::from_program(&program);
    match arguments.next().as_ref().and_then(|argument| argument.to_str()) {
        Some("-V" | "--version") => return write_stdout(&version_text(role)),
        Some("-h" | "--help") => return write_stdout(&help_text(role)),
        Some(unbroken::HELPER_FLAG) => return run_helper(arguments.next()),
        _ => {}
    }
    let Some(role) = role else {
        let error = Error::UnknownProgram { program: program.display().to_string() };
        write_stdout(&protocol::error_reply(&error, CniVersion::NEWEST));
        return ExitCode::FAILURE;
    };
    let variables = CniEnvironment::from_process();
    serve_call(role, &variables, &mut stdin().lock(), &mut stdout().lock(), |call, out| {
        run_call(role, call, out)
    })
    .into()
}

fn run_call(role: PluginType, call: &Invocation, out: &mut dyn Write) -> Result<(), Error> {
    // Without them a signal ends us like a kill, which the journal is for.
    let signals = DeferredSignals::block().ok();
    let stop = || signals.as_ref().is_some_and(DeferredSignals::received);
    let root = Root::default();
    let hardware = detect_hardware(&root)?;
    // Even if the file has been replaced since we started.
    let detached = Some(Path::new("/proc/self/exe"));
    let machine = CniContext {
        should_stop: &stop,
        helper_program: detached,
        ..CniContext::with_hardware(&root, hardware.as_ref())
    };
    run(&machine, role, call, out)
}

/// Do what the process that started us must not do itself, because somebody may kill it meanwhile.
fn run_helper(work: Option<OsString>) -> ExitCode {
    let _signals = DeferredSignals::block().ok();
    let root = Root::default();
    let work = work.unwrap_or_default();
    let done = detect_hardware(&root).and_then(|hardware| {
        let sandbox = stdin().as_fd().try_clone_to_owned().map_err(|source| Error::Stdin { source })?;
        DeviceOp::perform_as_helper(&work.to_string_lossy(), &root, hardware.as_ref(), sandbox)
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            write_stdout(&unbroken::fault_json(&error));
            ExitCode::FAILURE
        }
    }
}

fn detect_hardware(root: &Root) -> Result<Box<dyn Hardware>, Error> {
    ferroband_sim::hardware(root).map_err(|error| Error::Reported(error.fault()))
}

fn version_text(role: Option<PluginType>) -> String {
    let role = role.unwrap_or(PluginType::Ferroband);
    format!("{role} {}\nCNI versions: {}\n", env!("CARGO_PKG_VERSION"), CniVersion::supported_list())
}

fn help_text(role: Option<PluginType>) -> String {
    let names =
        PluginType::ALL.map(|role| format!("  {:<12} {}\n", role.as_str(), role.description())).concat();
    format!(
        "{}\nA CNI plugin: a container runtime starts it with CNI_COMMAND and a configuration on standard input.\n\
         Which plugin it is depends on the name of the file:\n\n{names}",
        version_text(role)
    )
}

fn write_stdout(text: &str) -> ExitCode {
    match stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
