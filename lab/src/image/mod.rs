//! Builds images without Docker: an archive of a folder, imported into each node with `ctr`.
//!
//! ```text
//! folder ──tar──▶ layer.tar ──┐
//!                config.json ─┼─tar──▶ NAME.tar (docker-archive) ──▶ containerd, with every name in `tags`
//!              manifest.json ─┘
//! ```

mod archive;
mod debian;
mod product;

use crate::cache;
use crate::progress::run_step;
use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;

pub use product::{
    IMAGE_NAME, TOOLS_IMAGE_NAME, build_binaries, build_cni, build_product, build_tools_product,
    built_cli_path, cargo_target_dir, release_image_name, rust_target, set_release_flags,
};

/// Image names in the tests and in the documents' manifests; all refer to one small Debian image.
pub const TOOLS_IMAGE_NAMES: &[&str] = &[
    "docker.io/library/debian:12",
    "ferroband.lab/tools:1",
    "us-docker.pkg.dev/jarvice/images/ubuntu-desktop:bionic",
    "docker.io/mellanox/rping-test:latest",
];

/// Builds the images of Ferroband and of the tests.
pub fn build_all() -> Result<()> {
    for archive in build_lab_images()? {
        println!("{}", archive.display());
    }
    let product = build_product()?;
    println!("{}", product.archive.display());
    println!("{}", build_tools_product(&product)?.display());
    Ok(())
}

/// Builds the images that every lab node has: pause, busybox and tools.
pub fn build_lab_images() -> Result<Vec<PathBuf>> {
    Ok(vec![build_busybox()?, build_tools()?])
}

/// busybox, also used as the pause image.
fn build_busybox() -> Result<PathBuf> {
    let archive = cache::folder("images")?.join("busybox-2.tar");
    if archive.exists() {
        return Ok(archive);
    }
    run_step("image busybox", |_| {
        let root = archive::ImageRoot::new("busybox")?;
        fs::create_dir_all(root.path("bin"))?;
        for folder in ["etc", "tmp", "root", "www"] {
            fs::create_dir_all(root.path(folder))?;
        }
        fs::copy("/bin/busybox", root.path("bin/busybox")).context("cannot copy /bin/busybox")?;
        link_applets(&root.path("bin"))?;
        fs::write(root.path("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n")?;
        // PID 1 of a sandbox ignores signals without handlers; only the kernel can kill it.
        let command = ["/bin/busybox", "sleep", "2147483647"];
        let tags =
            ["docker.io/library/busybox:1", "docker.io/library/busybox:1.36", crate::cluster::PAUSE_IMAGE];
        archive::write(&root, &archive, &tags, &command)
    })?;
    Ok(archive)
}

/// A small Debian with iproute2, rdma-core and perftest.
fn build_tools() -> Result<PathBuf> {
    let archive = cache::folder("images")?.join("tools-3.tar");
    if archive.exists() {
        return Ok(archive);
    }
    run_step("image tools (iproute2, rdma-core, perftest)", |step| {
        let root = archive::ImageRoot::new("tools")?;
        debian::unpack(
            &root,
            &[
                "iproute2",
                "iputils-ping",
                "ibverbs-utils",
                "ibverbs-providers",
                "perftest",
                "rdmacm-utils",
                "rdma-core",
                "socat",
                "bash",
                "coreutils",
                "busybox-static",
            ],
            step,
        )?;
        link_applets(&root.path("bin"))?;
        archive::write(&root, &archive, TOOLS_IMAGE_NAMES, &["/bin/busybox", "sleep", "2147483647"])
    })?;
    Ok(archive)
}

/// Links busybox applets that the folder does not have yet.
fn link_applets(folder: &std::path::Path) -> Result<()> {
    let names = crate::command::output(&mut crate::command::command("/bin/busybox", ["--list"]))?;
    for name in names.lines().filter(|n| *n != "busybox") {
        let link = folder.join(name);
        if !link.exists() && !link.is_symlink() {
            std::os::unix::fs::symlink("busybox", link)?;
        }
    }
    Ok(())
}
