//! `ferroband-cni`: one binary that implements several CNI plugins. The name in argv[0] selects the plugin.

use ferroband_attach::{
    CniContext, CniEnvironment, CniVersion, DeferredSignals, DeviceOp, Error, Invocation, PluginType,
    device_op, protocol, run, serve_call,
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
    let plugin_type = PluginType::from_program(&program);
    match arguments.next().as_ref().and_then(|argument| argument.to_str()) {
        Some("-V" | "--version") => return write_stdout(&version_text(plugin_type)),
        Some("-h" | "--help") => return write_stdout(&help_text(plugin_type)),
        Some(device_op::HELPER_FLAG) => return run_helper(arguments.next()),
        _ => {}
    }
    let Some(plugin_type) = plugin_type else {
        let error = Error::UnknownProgram { program: program.display().to_string() };
        write_stdout(&protocol::error_reply(&error, CniVersion::NEWEST));
        return ExitCode::FAILURE;
    };
    let variables = CniEnvironment::from_process();
    serve_call(plugin_type, &variables, &mut stdin().lock(), &mut stdout().lock(), |call, out| {
        run_call(plugin_type, call, out)
    })
    .into()
}

fn run_call(plugin_type: PluginType, call: &Invocation, out: &mut dyn Write) -> Result<(), Error> {
    // If the signals cannot be blocked, one of them acts like a kill, and DEL cleans up from the journal.
    let signals = DeferredSignals::block().ok();
    let stop = || signals.as_ref().is_some_and(DeferredSignals::received);
    let root = Root::default();
    let hardware = detect_hardware(&root)?;
    // The helper is this running binary, even if its file has been replaced since.
    let helper = Some(Path::new("/proc/self/exe"));
    let context = CniContext {
        should_stop: &stop,
        helper_program: helper,
        ..CniContext::with_hardware(&root, hardware.as_ref())
    };
    run(&context, plugin_type, call, out)
}

/// Perform a device operation for the parent process, which the runtime may kill at any time.
fn run_helper(operation: Option<OsString>) -> ExitCode {
    let _signals = DeferredSignals::block().ok();
    let root = Root::default();
    let operation = operation.unwrap_or_default();
    let result = detect_hardware(&root).and_then(|hardware| {
        let sandbox = stdin().as_fd().try_clone_to_owned().map_err(|source| Error::Stdin { source })?;
        DeviceOp::perform_as_helper(&operation.to_string_lossy(), &root, hardware.as_ref(), sandbox)
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            write_stdout(&device_op::fault_json(&error));
            ExitCode::FAILURE
        }
    }
}

fn detect_hardware(root: &Root) -> Result<Box<dyn Hardware>, Error> {
    ferroband_sim::hardware(root).map_err(|error| Error::Reported(error.fault()))
}

fn version_text(plugin_type: Option<PluginType>) -> String {
    let plugin_type = plugin_type.unwrap_or(PluginType::Ferroband);
    format!("{plugin_type} {}\nCNI versions: {}\n", env!("CARGO_PKG_VERSION"), CniVersion::supported_list())
}

fn help_text(plugin_type: Option<PluginType>) -> String {
    let names = PluginType::ALL
        .map(|plugin_type| format!("  {:<12} {}\n", plugin_type.as_str(), plugin_type.description()))
        .concat();
    format!(
        "{}\nA CNI plugin. A container runtime runs it with CNI_COMMAND and a configuration on standard input.\n\
         The file name selects the plugin:\n\n{names}",
        version_text(plugin_type)
    )
}

fn write_stdout(text: &str) -> ExitCode {
    match stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
