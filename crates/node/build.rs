//! Compiles the kubelet's interfaces in pure Rust: nobody needs `protoc` to build Ferroband.

use std::error::Error;

/// From this package's folder, where Cargo runs the script; so a built script is right in any checkout.
const INTERFACES: &str = "../../proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={INTERFACES}");
    let files = protox::compile(
        ["deviceplugin.proto", "pluginregistration.proto", "podresources.proto"],
        [INTERFACES],
    )?;
    tonic_prost_build::configure().compile_fds(files)?;
    Ok(())
}
