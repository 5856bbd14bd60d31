//! The docker-archive format: layers, their configuration, and a manifest.

use crate::cache;
use crate::command::{command, output, run};
use anyhow::{Context, Result};
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;
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

/// Options of tar with which the same content yields the same archive, whoever packs it and when.
const PACK: [&str; 6] = ["--numeric-owner", "--owner=0", "--group=0", "--sort=name", "--mtime=@0", "-cf"];

/// Packs `scratch` as `archive` with all `tags` and a default `entrypoint`.
pub fn write(scratch: &ImageRoot, archive: &Path, tags: &[&str], entrypoint: &[&str]) -> Result<()> {
    write_on(None, scratch, archive, tags, entrypoint)
}

/// Packs a root file system as a layer.
pub fn write_layer(scratch: &ImageRoot, layer: &Path) -> Result<()> {
    run(command("tar", PACK).arg(layer).arg("-C").arg(scratch.path("")).arg("."))
}

/// Packs `scratch` as a layer on the layer `base`.
pub fn write_on(
    base: Option<&Path>,
    scratch: &ImageRoot,
    archive: &Path,
    tags: &[&str],
    entrypoint: &[&str],
) -> Result<()> {
    let mut layers = Vec::new();
    if let Some(base) = base {
        // tar follows the link and stores the file.
        symlink(base, scratch.scratch_path("base.tar")).context("cannot link the base layer")?;
        layers.push("base.tar");
    }
    write_layer(scratch, &scratch.scratch_path("layer.tar"))?;
    layers.push("layer.tar");
    let digests: Vec<String> =
        layers.iter().map(|layer| digest(&scratch.scratch_path(layer))).collect::<Result<_>>()?;
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let config = json!({
        "architecture": architecture,
        "os": "linux",
        "config": {
            "Entrypoint": entrypoint,
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
        },
        "rootfs": {"type": "layers", "diff_ids": digests},
    });
    fs::write(scratch.scratch_path("config.json"), config.to_string())?;
    let manifest = json!([{"Config": "config.json", "RepoTags": tags, "Layers": layers}]);
    fs::write(scratch.scratch_path("manifest.json"), manifest.to_string())?;
    let draft = archive.with_extension("new");
    run(command("tar", ["--dereference", "--mode=u=rw,go=r"])
        .args(PACK)
        .arg(&draft)
        .arg("-C")
        .arg(scratch.scratch_path(""))
        .args(["manifest.json", "config.json"])
        .args(&layers))?;
    fs::rename(&draft, archive).with_context(|| format!("cannot keep {}", archive.display()))
}

fn digest(layer: &Path) -> Result<String> {
    let sum = output(command("sha256sum", ["-b"]).arg(layer))?;
    Ok(format!("sha256:{}", sum.split_whitespace().next().context("sha256sum printed nothing")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The archive of an image with a file on a layer with another file.
    fn pack() -> Vec<u8> {
        let (lower, upper) = (ImageRoot::new("test-lower").unwrap(), ImageRoot::new("test-upper").unwrap());
        fs::write(lower.path("a"), "lower").unwrap();
        fs::write(upper.path("b"), "upper").unwrap();
        let (base, archive) = (lower.scratch_path("base.tar"), lower.scratch_path("image.tar"));
        write_layer(&lower, &base).unwrap();
        write_on(Some(&base), &upper, &archive, &["x:1"], &["/b"]).unwrap();
        let listed = output(command("tar", ["-tf"]).arg(&archive)).unwrap();
        assert_eq!(
            listed.lines().collect::<Vec<_>>(),
            ["manifest.json", "config.json", "base.tar", "layer.tar"]
        );
        let manifest = output(command("tar", ["-xOf"]).arg(&archive).arg("manifest.json")).unwrap();
        assert!(manifest.contains(r#""Layers":["base.tar","layer.tar"]"#), "{manifest}");
        fs::read(&archive).unwrap()
    }

    #[test]
    fn image_on_a_base_has_two_layers_and_is_the_same_when_repeated() {
        assert!(pack() == pack());
    }
}
