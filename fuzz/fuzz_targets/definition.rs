//! An object from which a network definition is rendered.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ferroband_fuzz_tests::run("definition", bytes));
