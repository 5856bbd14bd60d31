//! Checks whether a program is statically linked.

use anyhow::{Context, Result, ensure};

/// Program header of the dynamic loader's path (ELF-64, System V ABI).
const PT_INTERP: u32 = 3;

/// Whether an ELF program is static, i.e. has no dynamic loader.
pub fn is_static(program: &[u8]) -> Result<bool> {
    ensure!(program.starts_with(b"\x7fELF\x02\x01"), "not a 64-bit little-endian ELF file");
    let number = |at: usize, width: usize| -> Result<usize> {
        let bytes = program.get(at..at + width).context("the ELF file is truncated")?;
        Ok(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
    };
    // e_phoff, e_phentsize, e_phnum
    let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    for header in 0..count {
        if number(table + header * size, 4)? == PT_INTERP as usize {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::is_static;

    #[test]
    fn dynamic_and_static_programs_are_distinguished() {
        let this = std::fs::read("/proc/self/exe").unwrap();
        assert!(!is_static(&this).unwrap());
        assert!(is_static(b"#!/bin/sh\n").is_err());
        assert!(is_static(&this[..40]).is_err(), "truncated");
        // Without program headers no loader is needed.
        let mut bare = this[..64].to_vec();
        bare[56..58].fill(0);
        assert!(is_static(&bare).unwrap());
    }
}
