//! A plugin's standard input.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ferroband_fuzz_tests::run("stdin", bytes));
