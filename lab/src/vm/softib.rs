//! Builds `softib.ko` for one kernel from a copy of `lab/softib`, since make writes beside the sources.

use super::cache::{VmCache, files_under};
use super::kernel::DebianKernel;
use super::toolchain;
use crate::command::{command, output};
use crate::progress::run_step;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Builds the module and returns its path.
pub fn build(cache: &VmCache, checkout: &Path, kernel: &DebianKernel) -> Result<PathBuf> {
    let sources = checkout.join("lab/softib");
    let mut files = files_under(&sources)?;
    files.retain(|file| file.extension().is_none_or(|extension| extension != "md"));
    let key = format!("{}-{}", kernel.release, crate::cache::hash_files(&files)?);
    let dir = cache.keyed("softib", &key, |dir| {
        run_step(format!("softib.ko for {}", kernel.release), |_| {
            for file in &files {
                fs::copy(file, dir.join(file.file_name().context("source file name")?))?;
            }
            // Without BTF, which needs pahole and the kernel's vmlinux and is of no use for a test module.
            let headers = format!("KDIR={}", kernel.headers.display());
            let args = ["-j2", "CONFIG_DEBUG_INFO_BTF_MODULES=", &headers];
            let made = match &kernel.toolchain {
                Some(toolchain) => toolchain::make(toolchain, dir, &args)?,
                None => output(command("make", ["-C"]).arg(dir).args(args))?,
            };
            fs::write(dir.join("make.log"), made)?;
            Ok(())
        })
    })?;
    Ok(dir.join("softib.ko"))
}
