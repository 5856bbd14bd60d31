//! Statements of the documents that need the kernel's InfiniBand stack.

use std::io::{Write, stderr};

/// Prints a statement that is asserted only by `cargo xtask test vmlab`.
pub fn note_vmlab_only(statement: &str) {
    // Written directly: the test harness captures `println!`.
    let _ = writeln!(stderr(), "  vmlab only: {statement}");
}
