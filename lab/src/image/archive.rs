//! The docker-archive format: one layer, its configuration, and a manifest.

use crate::cache;
use crate::command::{command, output, run};
use anyhow::{Context, Result};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// A temporary folder with an image's root file system, removed on drop.
pub struct ImageRoot(PathBuf);

impl ImageRoot {
    /// Creates an empty root file system.
    pub fn new(name: &str) -> Result<Self> {
        let folder = cache::folder("images")?.join(format!("scratch-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("root"))
            .with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(Self(folder))
    }

    /// A path inside the root file system.
    pub fn path(&self, inside: impl AsRef<Path>) -> PathBuf {
        self.0.join("root").join(inside)
    }

    /// A path beside the root file system.
    pub fn scratch_path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for ImageRoot {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Packs `scratch` as `archive` with all `tags` and a default `entrypoint`.
pub fn write(scratch: &ImageRoot, archive: &Path, tags: &[&str], entrypoint: &[&str]) -> Result<()> {
    let layer = scratch.scratch_path("layer.tar");
    // The same content yields the same archive, whoever packs it and when.
    let pack = ["--numeric-owner", "--owner=0", "--group=0", "--sort=name", "--mtime=@0", "-cf"];
    run(command("tar", pack).arg(&layer).arg("-C").arg(scratch.path("")).arg("."))?;
    let sum = output(command("sha256sum", ["-b"]).arg(&layer))?;
    let digest = sum.split_whitespace().next().context("sha256sum printed nothing")?;
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let config = json!({
        "architecture": architecture,
        "os": "linux",
        "config": {
            "Entrypoint": entrypoint,
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
    });
    fs::write(scratch.scratch_path("config.json"), config.to_string())?;
    let manifest = json!([{"Config": "config.json", "RepoTags": tags, "Layers": ["layer.tar"]}]);
    fs::write(scratch.scratch_path("manifest.json"), manifest.to_string())?;
    let draft = archive.with_extension("new");
    run(command("tar", ["--mode=u=rw,go=r"])
        .args(pack)
        .arg(&draft)
        .arg("-C")
        .arg(scratch.scratch_path(""))
        .args(["manifest.json", "config.json", "layer.tar"]))?;
    fs::rename(&draft, archive).with_context(|| format!("cannot keep {}", archive.display()))
}
