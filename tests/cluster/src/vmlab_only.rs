//! What a document states, one assertion for each statement.

use std::io::{Write, stderr};

/// A statement about the kernel's own InfiniBand: shown here, and asserted where there is one (`cargo xtask test vmlab`).
pub fn note_vmlab_only(statement: &str) {
    // Past the test harness, which keeps what tests print to itself.
    let _ = writeln!(stderr(), "  needs kernel: {statement}");
}
