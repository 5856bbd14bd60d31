//! The product's own image: two static binaries and nothing else.

use super::archive;
use crate::cache;
use crate::command::{command, output, succeeds};
use crate::progress::{ProgressStep, run_step};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::PathBuf;

/// The name under which the lab's nodes have it.
pub const IMAGE_NAME: &str = "docker.io/library/ferroband:dev";

/// The name of a release's image.
pub fn release_image_name() -> String {
    format!("docker.io/library/ferroband:{}", env!("CARGO_PKG_VERSION"))
}

/// What the programs are built for: musl where its target is there or can be added; else glibc, linked statically.
pub fn rust_target() -> String {
    let architecture = std::env::consts::ARCH;
    let musl = format!("{architecture}-unknown-linux-musl");
    match succeeds(&mut command("rustup", ["target", "add", &musl])) {
        true => musl,
        false => format!("{architecture}-unknown-linux-gnu"),
    }
}

/// The two binaries, static.
pub struct ProductBinaries {
    /// `ferroband`: daemons and command line.
    pub ferroband: PathBuf,
    /// `ferroband-cni`: what container runtimes execute.
    pub cni: PathBuf,
}

/// Build both binaries.
pub fn build_binaries() -> Result<ProductBinaries> {
    Ok(ProductBinaries {
        cni: build_cni()?,
        ferroband: run_step("building ferroband", |_| build("ferroband-cli", "ferroband", "release"))?,
    })
}

/// Build `ferroband-cni` as it is shipped.
pub fn build_cni() -> Result<PathBuf> {
    run_step("building ferroband-cni", |_| build("ferroband-cni", "ferroband-cni", "cni"))
}

/// Build one of them.
fn build(package: &str, binary: &str, profile: &str) -> Result<PathBuf> {
    let target = rust_target();
    let mut cargo = command("cargo", ["build", "--quiet", "--package", package, "--profile", profile]);
    cargo.args(["--target", &target]).current_dir(cache::checkout());
    // ring compiles some C; the machine's own compiler serves, since nothing of its libc is used.
    cargo.env(format!("CC_{}", target.replace('-', "_")), "gcc");
    if !target.ends_with("musl") {
        cargo.env("RUSTFLAGS", "-C target-feature=+crt-static");
    }
    output(&mut cargo)?;
    let file = cargo_target_dir()?.join(&target).join(profile).join(binary);
    if file.exists() { Ok(file) } else { bail!("cargo made no {}", file.display()) }
}

/// Where the command line is after a build.
pub fn built_cli_path() -> Result<PathBuf> {
    Ok(cargo_target_dir()?.join(rust_target()).join("release/ferroband"))
}

/// What a lab installs.
pub struct ProductBuild {
    /// The image's archive.
    pub archive: PathBuf,
    /// The command line that is in it.
    pub ferroband: PathBuf,
    /// The CNI program that is in it.
    pub cni: PathBuf,
}

/// Build the binaries and pack them.
pub fn build_product() -> Result<ProductBuild> {
    let binaries = build_binaries()?;
    Ok(ProductBuild { archive: pack(&binaries)?, ferroband: binaries.ferroband, cni: binaries.cni })
}

fn pack(binaries: &ProductBinaries) -> Result<PathBuf> {
    let archive = cache::folder("images")?.join(format!(
        "ferroband-{}-{}.tar",
        env!("CARGO_PKG_VERSION"),
        checkout_key()
    ));
    let newer = |than: &PathBuf| -> Option<bool> {
        let packed = fs::metadata(&archive).ok()?.modified().ok()?;
        Some(packed > fs::metadata(than).ok()?.modified().ok()?)
    };
    if newer(&binaries.cni) == Some(true) && newer(&binaries.ferroband) == Some(true) {
        return Ok(archive);
    }
    run_step("image ferroband", |_: &mut ProgressStep| {
        let root = archive::ImageRoot::new("ferroband")?;
        fs::create_dir_all(root.path("usr/bin"))?;
        for folder in ["tmp", "etc", "run", "var/lib"] {
            fs::create_dir_all(root.path(folder))?;
        }
        for file in [&binaries.ferroband, &binaries.cni] {
            let name = file.file_name().context("a binary without a name")?;
            fs::copy(file, root.path("usr/bin").join(name))
                .with_context(|| format!("cannot copy {}", file.display()))?;
        }
        archive::write(&root, &archive, &[IMAGE_NAME, &release_image_name()], &["/usr/bin/ferroband"])
    })?;
    Ok(archive)
}

/// Two checkouts have two products; their archives must not overwrite each other.
fn checkout_key() -> String {
    cache::hash_bytes(cache::checkout().to_string_lossy().as_bytes())
}

/// Where cargo puts what it builds.
pub fn cargo_target_dir() -> Result<PathBuf> {
    let text = output(
        command("cargo", ["metadata", "--format-version=1", "--no-deps"]).current_dir(cache::checkout()),
    )?;
    let metadata: serde_json::Value = serde_json::from_str(&text).context("cargo metadata")?;
    Ok(PathBuf::from(
        metadata["target_directory"].as_str().context("cargo metadata without a target folder")?,
    ))
}
