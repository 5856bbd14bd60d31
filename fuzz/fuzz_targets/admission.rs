//! A request to the webhook.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ferroband_fuzz_tests::run("admission", bytes));
