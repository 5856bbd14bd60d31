//! Compiles the kubelet's gRPC APIs in pure Rust, so that building Ferroband does not need `protoc`.

use std::error::Error;

/// Directory of the `.proto` files, relative to the package directory, in which Cargo runs build scripts.
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
