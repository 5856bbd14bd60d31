//! Exit status and error output of the program.

use std::{
    io::{self, ErrorKind},
    process::ExitCode,
};

/// Prints the error, if any, to standard error and returns the exit status.
pub fn exit_code(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader closed the pipe, as in `ferroband crds print | head`. This is not an error.
        Err(e) if is_broken_pipe(&e) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("ferroband: {}", ferroband_node::error_chain(e.as_ref()));
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == ErrorKind::BrokenPipe))
}
