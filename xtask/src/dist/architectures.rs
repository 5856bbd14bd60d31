//! Other architectures: whether the sources compile for them.

use crate::cache;
use crate::command::{command, output, succeeds};
use crate::progress::ProgressStep;

/// What else the product is meant for; ppc64le is where the JARVICE device plugin also runs.
const TARGETS: [&str; 3] =
    ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "powerpc64le-unknown-linux-gnu"];

/// Check each, and say in one line how it went. That a target cannot be had here is no failure of ours.
pub fn check_others() {
    for target in TARGETS.iter().filter(|target| !target.starts_with(std::env::consts::ARCH)) {
        let step = ProgressStep::begin(format!("cargo check for {target}"));
        match check(target) {
            Ok(said) => step.finish(said),
            Err(why) => step.finish(format!("not checked: {why}")),
        }
    }
}

fn check(target: &str) -> Result<String, String> {
    if !succeeds(&mut command("rustup", ["target", "add", target])) {
        return Err("its standard library cannot be added here".to_owned());
    }
    let architecture = target.split('-').next().unwrap_or_default();
    let gcc = format!("{architecture}-linux-gnu-gcc");
    let has_gcc = succeeds(&mut command(&gcc, ["--version"]));
    let mut cargo = command("cargo", ["check", "--quiet", "--package", "ferroband-cni", "--target", target]);
    cargo.args(["--package", "ferroband-cli"]).current_dir(cache::checkout());
    let name = target.replace('-', "_");
    // ring's build script compiles C. A check links nothing, so where there is no compiler for the target none is needed.
    let (cc, ar) = if has_gcc { (gcc.as_str(), "ar") } else { ("true", "true") };
    cargo.env(format!("CC_{name}"), cc).env(format!("AR_{name}"), ar);
    match output(&mut cargo) {
        Ok(_) if has_gcc => Ok("compiles".to_owned()),
        Ok(_) => Ok(format!("the Rust of it compiles (no {gcc} here for ring's C)")),
        Err(error) => Err(crate::command::tail(&format!("{error:#}"), 12)),
    }
}
