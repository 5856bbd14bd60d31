//! Ferroband's images: one with two static binaries and nothing else, and one with Debian's InfiniBand tools below them.

use super::{archive, debian};
use crate::cache;
use crate::command::{command, output, run, succeeds};
use crate::progress::{ProgressStep, run_step};
use crate::workspace;
use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Image name on the lab's nodes.
pub const IMAGE_NAME: &str = "docker.io/library/ferroband:dev";
/// Name of the image with tools on the lab's nodes.
pub const TOOLS_IMAGE_NAME: &str = "docker.io/library/ferroband-tools:dev";

/// Packages of the image with tools: firmware settings, subnet manager, diagnosis, measurements, verbs, and a shell.
const TOOLS: [&str; 13] = [
    "mstflint",
    "opensm",
    "infiniband-diags",
    "perftest",
    "rdma-core",
    "ibverbs-providers",
    "ibverbs-utils",
    "rdmacm-utils",
    "iproute2",
    "iputils-ping",
    "bash",
    "coreutils",
    "kmod",
];

/// Image name of a release.
pub fn release_image_name() -> String {
    release_name(IMAGE_NAME)
}

/// The name with the version as the tag.
fn release_name(image: &str) -> String {
    format!("{}:{}", image.trim_end_matches(":dev"), env!("CARGO_PKG_VERSION"))
}

/// Rust target of the programs: musl if it is installed or can be added, otherwise glibc linked statically.
pub fn rust_target() -> String {
    let architecture = std::env::consts::ARCH;
    let musl = format!("{architecture}-unknown-linux-musl");
    match succeeds(&mut command("rustup", ["target", "add", &musl])) {
        true => musl,
        false => format!("{architecture}-unknown-linux-gnu"),
    }
}

/// Ferroband's two static binaries.
pub struct ProductBinaries {
    /// `ferroband`: daemons and command line.
    pub ferroband: PathBuf,
    /// `ferroband-cni`: executed by container runtimes.
    pub cni: PathBuf,
}

/// Builds both binaries.
pub fn build_binaries() -> Result<ProductBinaries> {
    Ok(ProductBinaries {
        cni: build_cni()?,
        ferroband: run_step("building ferroband", |_| build("ferroband-cli", "ferroband", "release"))?,
    })
}

/// Builds `ferroband-cni` with its release profile.
pub fn build_cni() -> Result<PathBuf> {
    run_step("building ferroband-cni", |_| build("ferroband-cni", "ferroband-cni", "cni"))
}

fn build(package: &str, binary: &str, profile: &str) -> Result<PathBuf> {
    let target = rust_target();
    let mut cargo = command("cargo", ["build", "--quiet", "--package", package, "--profile", profile]);
    cargo.args(["--target", &target]).current_dir(cache::checkout());
    set_release_flags(&mut cargo, &target)?;
    output(&mut cargo)?;
    let file = cargo_target_dir()?.join(&target).join(profile).join(binary);
    if file.exists() { Ok(file) } else { bail!("cargo did not build {}", file.display()) }
}

/// Sets the compilers and flags of a program for `target`. The program contains no path of this machine, so that a build in
/// any folder yields the same bytes.
pub fn set_release_flags(cargo: &mut Command, target: &str) -> Result<()> {
    let (checkout, build) = (cache::checkout(), cargo_target_dir()?);
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let cargo_home = std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    let sysroot = output(&mut command("rustc", ["--print", "sysroot"]))?;
    let library = PathBuf::from(sysroot.trim()).join("lib/rustlib/src/rust");
    // Of several that match, rustc uses the last. The build folder is often inside of the checkout.
    let paths =
        [(&checkout, "/ferroband"), (&build, "/target"), (&cargo_home, "/cargo"), (&library, "/rustc")];
    let remap = |(path, name): (&PathBuf, &str)| format!("--remap-path-prefix={}={name}", path.display());
    let mut flags: Vec<String> = paths.into_iter().map(remap).collect();
    if !target.ends_with("musl") {
        flags.extend(["-C", "target-feature=+crt-static"].map(str::to_owned));
    }
    // In this variable flags are separated by a control character, so that a path may contain blanks.
    cargo.env_remove("RUSTFLAGS").env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    // ring compiles C code that uses no libc, so the host's compiler works.
    let name = target.replace('-', "_");
    let c_paths = format!(
        "-ffile-prefix-map={}=/cargo -ffile-prefix-map={}=/target",
        cargo_home.display(),
        build.display()
    );
    cargo.env(format!("CC_{name}"), "gcc").env(format!("CFLAGS_{name}"), c_paths);
    Ok(())
}

/// Path of the CLI after a build.
pub fn built_cli_path() -> Result<PathBuf> {
    Ok(cargo_target_dir()?.join(rust_target()).join("release/ferroband"))
}

/// Built image and binaries of Ferroband.
pub struct ProductBuild {
    /// Image archive.
    pub archive: PathBuf,
    /// The CLI in the image.
    pub ferroband: PathBuf,
    /// The CNI plugin in the image.
    pub cni: PathBuf,
}

/// Builds the binaries and packs the image.
pub fn build_product() -> Result<ProductBuild> {
    let binaries = build_binaries()?;
    Ok(ProductBuild { archive: pack(&binaries)?, ferroband: binaries.ferroband, cni: binaries.cni })
}

/// Packs the image with tools. Its lower layer is kept, because it changes only with Debian's packages.
pub fn build_tools_product(product: &ProductBuild) -> Result<PathBuf> {
    let base = cache::folder("images")?.join("ferroband-tools-base-1.tar");
    if !base.exists() {
        run_step("Debian packages of the image ferroband-tools", |step| {
            let root = archive::ImageRoot::new("ferroband-tools-base")?;
            debian::unpack(&root, &TOOLS, step)?;
            // The upper layer has a link here.
            let _ = fs::remove_dir(root.path("var/run"));
            let draft = base.with_extension("new");
            archive::write_layer(&root, &draft)?;
            fs::rename(&draft, &base).with_context(|| format!("cannot keep {}", base.display()))
        })?;
    }
    let binaries = ProductBinaries { ferroband: product.ferroband.clone(), cni: product.cni.clone() };
    pack_image("ferroband-tools", TOOLS_IMAGE_NAME, Some(&base), &binaries)
}

fn pack(binaries: &ProductBinaries) -> Result<PathBuf> {
    pack_image("ferroband", IMAGE_NAME, None, binaries)
}

/// Packs an image with the binaries on the layer `base`, unless the archive is newer than all of them.
fn pack_image(name: &str, image: &str, base: Option<&Path>, binaries: &ProductBinaries) -> Result<PathBuf> {
    let file = format!("{name}-{}-{}.tar", env!("CARGO_PKG_VERSION"), checkout_key());
    let archive = cache::folder("images")?.join(file);
    let newer = |than: &Path| -> Option<bool> {
        let packed = fs::metadata(&archive).ok()?.modified().ok()?;
        Some(packed > fs::metadata(than).ok()?.modified().ok()?)
    };
    if [Some(binaries.cni.as_path()), Some(&binaries.ferroband), base]
        .into_iter()
        .flatten()
        .all(|input| newer(input) == Some(true))
    {
        return Ok(archive);
    }
    run_step(format!("image {name}"), |_: &mut ProgressStep| {
        let root = archive::ImageRoot::new(name)?;
        fs::create_dir_all(root.path("usr/bin"))?;
        for folder in ["tmp", "etc", "run", "var/lib"] {
            fs::create_dir_all(root.path(folder))?;
        }
        // As on hosts. The node daemon opens the mounts below /run under both names.
        symlink("../run", root.path("var/run"))?;
        for file in [&binaries.ferroband, &binaries.cni] {
            let name = file.file_name().context("a binary has no file name")?;
            fs::copy(file, root.path("usr/bin").join(name))
                .with_context(|| format!("cannot copy {}", file.display()))?;
        }
        // The permissions must not depend on the umask of this process.
        run(command("chmod", ["-R", "u=rwX,go=rX"]).arg(root.path("")))?;
        archive::write_on(base, &root, &archive, &[image, &release_name(image)], &["/usr/bin/ferroband"])
    })?;
    Ok(archive)
}

/// Distinguishes the archives of different checkouts.
fn checkout_key() -> String {
    cache::hash_bytes(cache::checkout().to_string_lossy().as_bytes())
}

/// cargo's target folder.
pub fn cargo_target_dir() -> Result<PathBuf> {
    let metadata = workspace::metadata()?;
    Ok(PathBuf::from(metadata["target_directory"].as_str().context("cargo metadata has no target folder")?))
}
