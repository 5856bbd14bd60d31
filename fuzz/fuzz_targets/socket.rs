//! Bytes on the daemon's socket.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ferroband_fuzz_tests::run("socket", bytes));
