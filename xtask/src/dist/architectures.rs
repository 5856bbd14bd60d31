//! Checks that the sources compile for other architectures.

use ferroband_lab::cache;
use ferroband_lab::command::{command, output, succeeds};
use ferroband_lab::progress::ProgressStep;

/// Supported targets; the JARVICE device plugin also runs on ppc64le.
const TARGETS: [&str; 3] =
    ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "powerpc64le-unknown-linux-gnu"];

/// Checks each target and prints one line per result. A target that is not available here is not a failure.
pub fn check_others() {
    for target in TARGETS.iter().filter(|target| !target.starts_with(std::env::consts::ARCH)) {
        let step = ProgressStep::begin(format!("cargo check for {target}"));
        match check(target) {
            Ok(result) => step.finish(result),
            Err(why) => step.finish(format!("not checked: {why}")),
        }
    }
}

fn check(target: &str) -> Result<String, String> {
    if !succeeds(&mut command("rustup", ["target", "add", target])) {
        return Err("cannot install its standard library".to_owned());
    }
    let architecture = target.split('-').next().unwrap_or_default();
    let gcc = format!("{architecture}-linux-gnu-gcc");
    let has_gcc = succeeds(&mut command(&gcc, ["--version"]));
    let mut cargo = command("cargo", ["check", "--quiet", "--package", "ferroband-cni", "--target", target]);
    cargo.args(["--package", "ferroband-cli"]).current_dir(cache::checkout());
    let name = target.replace('-', "_");
    // ring's build script compiles C. `cargo check` does not link, so `true` can replace a missing compiler.
    let (cc, ar) = if has_gcc { (gcc.as_str(), "ar") } else { ("true", "true") };
    cargo.env(format!("CC_{name}"), cc).env(format!("AR_{name}"), ar);
    match output(&mut cargo) {
        Ok(_) if has_gcc => Ok("compiles".to_owned()),
        Ok(_) => Ok(format!("the Rust code compiles (no {gcc} for ring's C code)")),
        Err(error) => Err(ferroband_lab::command::tail(&format!("{error:#}"), 12)),
    }
}
