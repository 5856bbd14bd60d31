//! Fuzzing of untrusted input: no input may cause a panic, a hang or an inconsistent result.
//!
//! ```text
//!                       ┌── cargo test: seeds and fuzz/corpus, then mutations with a fixed random seed, for some seconds
//! FuzzTarget ◀──────────┤
//!  seeds, run(bytes)    ├── cargo xtask test soak: the same for minutes
//!                       └── cargo +nightly fuzz run NAME (directory fuzz/): guided by coverage
//! ```
//!
//! An input that fails is saved in `fuzz/corpus/NAME`, so that all later runs begin with it.

pub mod mutation;
mod seeds;
mod targets;

use std::fs;
use std::path::Path;

/// A parser of untrusted input, with inputs to start from.
#[derive(Clone, Copy, Debug)]
pub struct FuzzTarget {
    /// Name of the target and of its folder in `fuzz/corpus`.
    pub name: &'static str,
    /// Valid inputs, which are mutated.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Panics if the input shows a defect.
    pub run: fn(&[u8]),
}

/// All targets. `fuzz/fuzz_targets` has a program for each.
pub const TARGETS: [FuzzTarget; 10] = [
    FuzzTarget { name: "stdin", seeds: seeds::configurations, run: targets::cni::stdin },
    FuzzTarget { name: "annotation", seeds: seeds::annotations, run: targets::cni::annotation },
    FuzzTarget { name: "socket", seeds: seeds::socket_messages, run: targets::cni::socket },
    FuzzTarget { name: "journal", seeds: seeds::journals, run: targets::cni::journal },
    FuzzTarget { name: "netlink", seeds: seeds::netlink_messages, run: targets::kernel::netlink },
    FuzzTarget { name: "plan", seeds: seeds::definitions, run: targets::plan::plan },
    FuzzTarget { name: "admission", seeds: seeds::admission_reviews, run: targets::cluster::admission },
    FuzzTarget { name: "definition", seeds: seeds::network_objects, run: targets::cluster::definition },
    FuzzTarget { name: "ufm", seeds: seeds::ufm_answers, run: targets::partition::ufm },
    FuzzTarget { name: "partitions", seeds: seeds::partitions_files, run: targets::partition::partitions },
];

/// Runs one input of the target `name`; for the programs of cargo-fuzz.
pub fn run(name: &str, bytes: &[u8]) {
    if let Some(target) = TARGETS.iter().find(|target| target.name == name) {
        (target.run)(bytes);
    }
}

impl FuzzTarget {
    /// The seeds, and the inputs that were saved in `fuzz/corpus`.
    pub fn corpus(&self) -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(self.name);
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        (self.seeds)().into_iter().chain(files.filter_map(|file| fs::read(file.path()).ok())).collect()
    }
}

#[cfg(test)]
mod tests;
