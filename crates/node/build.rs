//! Compiles the kubelet's interfaces in pure Rust: nobody needs `protoc` to build Ferroband.

use std::{error::Error, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    println!("cargo::rerun-if-changed={}", folder.display());
    let files =
        protox::compile(["deviceplugin.proto", "pluginregistration.proto", "podresources.proto"], [&folder])?;
    tonic_prost_build::configure().compile_fds(files)?;
    Ok(())
}
